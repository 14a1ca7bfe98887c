// The result of a scheduling round. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/time/time.h"
#include "controller/model/types/plan.h"
#include "controller/model/types/worker_types.h"

namespace muster::controller {

// The first job of a partition that does not fit: slots are reserved for it.
struct ReservedJob {
  uint64_t job_id = 0;
  std::string pool;
  SlotKind kind = SlotKind::kCpu;
  absl::Time start = absl::InfiniteFuture();  // by the run times that are known; infinite: unknown
};

struct Decision {
  Plan plan;
  std::vector<ReservedJob> reserved;
  // By job: slots within its quotas that later jobs may not use.
  std::unordered_map<uint64_t, uint32_t> kept_quota;
  absl::Duration due_at = absl::InfiniteDuration();  // since boot: when the next round is due
};

}  // namespace muster::controller
