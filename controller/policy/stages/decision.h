// The result of a scheduling round. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/model/types/plan.h"
#include "controller/model/types/worker_types.h"

namespace muster::controller {

// The first job of a partition that does not fit: slots are kept for it.
struct ReservedJob {
  uint64_t job_id = 0;
  std::string pool;
  SlotKind kind = SlotKind::kCpu;
  absl::Time start = absl::InfiniteFuture();  // by the run times that are known; infinite: unknown
};

struct Decision {
  Plan plan;
  std::vector<ReservedJob> reserved;
  absl::Duration due_at = absl::InfiniteDuration();  // since boot: when the next round is due
  // Steps walked before max_looks ended the round; the next round continues there. 0: the round
  // ended for another reason.
  uint32_t looked_up_to = 0;
};

}  // namespace muster::controller
