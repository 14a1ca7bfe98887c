// When a worker that looks healthy is no longer trusted with new work. Pure.
//
// Each failure that begins on a worker is evidence against it, but no proof: most failures are
// the job's own. What looks like an error of the program, or of who asked for a program that is not
// there, is none before the job got on elsewhere. It takes two signals to blame the worker, which
// no single job can give: failures of jobs of two users, since those of one may all run the same
// faulty program; or of two jobs of one user, of which one afterwards got on without the worker.
// Many failures at once are one incident. A quarantine ends by itself, the next one is
// twice as long. When too much of a pool would be in quarantine, the cause is taken to be another:
// the worker is exempt, and people see that.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

// Older failures do not count, unless the settings say otherwise.
inline constexpr absl::Duration kIncidentWindow = absl::Hours(1);

struct QuarantineSettings {
  uint32_t incidents = 3;                   // within `window` are needed; 0: never
  absl::Duration window = kIncidentWindow;  // older failures do not count
  absl::Duration first = absl::Minutes(10);
  absl::Duration longest = absl::Hours(24);
  double max_share = 0.34;  // of a pool's workers may be in quarantine at a time; of two: one
};

// Whether the failure of this attempt may be the worker's. An application's error, bad data, too
// little memory or a program that is not there alone never is.
bool MayBeTheWorkers(const Attempt& attempt);

// Whether the failure counts against the worker once the job gets further on another one: a GPU, a
// mount or a library that is broken there looks like an error of the program.
bool CountsAgainstWorkerLater(const Attempt& attempt);

// Whether the attempt could not read or write its checkpoints, or found them broken. The cause may
// be that one machine (a right to the folder, a bad disk), while others read them.
bool IsCheckpointFailure(const Attempt& attempt);

// The workers of the job's latest failed attempts, since it last got further, back to the first
// that failed in neither of these two ways. The next attempt shows more if it runs elsewhere.
std::set<std::string> FailedOn(const Job& job);

struct Quarantine {
  absl::Time until;
  uint32_t number = 1;   // in a row
  std::string evidence;  // one sentence
};

// How many incidents count against the worker at `now`: what began there within the window and
// after its last quarantine. What happened at once is one incident.
uint32_t IncidentsAgainst(const Worker& worker, absl::Duration window, absl::Time now);

// The first moment after which fewer of them count; InfiniteFuture: none does.
absl::Time IncidentsFade(const Worker& worker, absl::Duration window, absl::Time now);

// The quarantine that what stands against the worker now is enough for, if it is. `now` here and
// below is ledger time, as the times of failures are.
std::optional<Quarantine> EvaluateWorker(const Snapshot& snapshot, const Worker& worker,
                                         const QuarantineSettings& settings, absl::Time now);

// Why a worker that would be in quarantine is not, with what stands against it; empty: it would not
// be. Begins with kExempt.
inline constexpr absl::string_view kExempt = "not quarantined";
bool IsExempt(const Worker& worker);  // as it was last evaluated
std::string WhyExempt(const Snapshot& snapshot, const Worker& worker,
                      const QuarantineSettings& settings, absl::Time now);

}  // namespace muster::controller
