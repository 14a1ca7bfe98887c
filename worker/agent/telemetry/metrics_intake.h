// In which order a rank's numbers go into the spool: a line that the disk refused comes again, and
// those behind it wait for it, so that none is lost and none is there twice. Keeps no line and does
// no I/O: it says what is to be done with the next one.
//
// Used by Rank for its trainer, which keeps what was not acknowledged. One thread.
#pragma once

#include <cstdint>
#include <optional>

#include "worker/link/link_messages.h"

namespace muster::worker {

// Lines that nobody will have, both ends included.
struct LostMetrics {
  uint64_t first = 0;
  uint64_t last = 0;
};

class MetricsIntake {
 public:
  // `spooled`: the newest line that is in the spool already.
  explicit MetricsIntake(uint64_t spooled) : taken_(spooled) {}

  enum class Turn {
    kNow,    // into the spool with it, then Took or Refused
    kTaken,  // it is there already
    kLater,  // one before it is still to come
  };
  Turn TurnOf(const MetricsLine& line);

  // What the rank has given up between the last taken line and this one, whose turn it is.
  std::optional<LostMetrics> LostBefore(const MetricsLine& line) const;

  void Took(const MetricsLine& line) { taken_ = line.seq; }

  // What was heard of and will not come any more, now that the rank is gone.
  std::optional<LostMetrics> LostAtEnd() const;

  uint64_t taken() const { return taken_; }

 private:
  uint64_t taken_;
  uint64_t heard_ = 0;  // the newest line that came
};

}  // namespace muster::worker
