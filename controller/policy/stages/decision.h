// What a look of the scheduler comes to. Plain data.
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
  absl::Duration due_at = absl::InfiniteDuration();  // since boot: look again then
  // Of a queue so long that one look does not go through it: how far this one came. 0: to its end.
  uint32_t looked_up_to = 0;
};

}  // namespace muster::controller
