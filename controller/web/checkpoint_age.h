// When a job's next checkpoint is due, by its spec. Specs are kept packed, so what was read of one
// is kept for the next scrape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

// What a job may do between two checkpoints; zero: it does not save by that.
struct CheckpointRule {
  uint64_t every_steps = 0;
  uint32_t every_epochs = 0;
  absl::Duration every;
};

// The work of the job since its newest restorable checkpoint, or since the attempt began, as a
// share of what its rule lets pass between two: 1 when the next one is due, above it when it is
// late. The largest share where it saves by several. No value for a job that does not run, or that
// does not save by a rule. `now` is ledger time.
std::optional<double> CheckpointAgeRatio(const Snapshot& snapshot, const Job& job,
                                         const CheckpointRule& rule, absl::Time now);

// Thread-safe.
class CheckpointRules {
 public:
  // Rules that are kept; beyond them all are read again.
  static constexpr size_t kMost = 32'768;

  // Of the job's settings of now. A command saves when it likes, and has no rule.
  CheckpointRule Of(const Job& job) MUSTER_EXCLUDES(mutex_);

 private:
  struct Known {
    std::weak_ptr<const JobSettings> settings;  // that it was read from
    CheckpointRule rule;
  };

  Mutex mutex_;
  absl::flat_hash_map<uint64_t, Known> known_ MUSTER_GUARDED_BY(mutex_);  // by job id
};

}  // namespace muster::controller
