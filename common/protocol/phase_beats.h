// How a worker tells the controller that a rank goes on within a phase whose step and epoch stand
// still: a long evaluation, a wait for a save.
#pragma once

namespace muster {

// Among the newest values of a rank (RankStatus.latest): counts the rank's signs of life. For
// whoever looks for hung ranks; not shown to people.
inline constexpr char kPhaseBeats[] = "phase_beats";

}  // namespace muster
