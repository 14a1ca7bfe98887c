// What `watch` shows of one job: a block that is redrawn in place on a terminal, or one line a
// change elsewhere. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

// Remembers what a job reported while it was watched: its loss curve, and how fast its steps came.
class WatchHistory {
 public:
  // `now`: a clock that never goes back, any origin.
  void Observe(absl::Duration now, const v1::JobSummary& job);

  // Fills in the curve from before the watch began. Call before the first Observe.
  void AddLoss(int64_t step, double loss);

  // Time until the last step at the speed of the last half minute; nothing while it is not known.
  std::optional<absl::Duration> Eta(const v1::JobSummary& job) const;

  // By growing step; after a restart the newer values of a step replace the older ones.
  std::vector<double> losses() const;

 private:
  struct Pace {
    absl::Duration time;
    int64_t step = 0;
  };
  struct Loss {
    int64_t step = 0;
    double loss = 0;
  };
  std::deque<Pace> paces_;
  std::vector<Loss> losses_;
  uint32_t attempt_ = 0;
};

// The block of lines, none wider than `width`, without newlines.
std::vector<std::string> WatchBlock(const v1::JobSummary& job, const WatchHistory& history,
                                    size_t width, bool unicode);

// "job 7 digits  train  450/1000 45%  loss 0.0310  812.0/s  311 MiB  best 96.0%  eta 12s"
std::string WatchLine(const v1::JobSummary& job, const WatchHistory& history);

bool IsTerminal(v1::JobState state);

// One sentence on how a finished job ended; for one that is not finished, where it stands.
std::string OutcomeText(const v1::JobSummary& job);

}  // namespace muster::cli
