// A cluster that exists only in memory, for benchmarks of the scheduler: workers with GPU slots and
// a queue of gangs of mixed sizes, built through a Draft as the applier would, and stored nowhere.
// Deterministic for one seed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "controller/model/draft.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/plan.h"

namespace muster::benchmarks {

struct ClusterSize {
  uint32_t nodes = 0;
  uint32_t slots_per_node = 8;
  uint32_t queued = 0;
};

class ClusterModel {
 public:
  ClusterModel(const ClusterSize& size, uint64_t seed);

  const controller::Snapshot& snapshot() const { return *snapshot_; }
  // The time since boot that the model's jobs were queued at, and at which to schedule.
  absl::Duration now() const { return absl::Hours(1); }

  // Lets the controller's own rule judge the plan again and apply it to a draft. Returns how many
  // gangs were placed. With `keep` the draft becomes the model's next version.
  uint64_t Apply(const controller::Plan& plan, bool keep);

  // The gangs that were placed first end, and as many new ones join the queue.
  void Replace(uint32_t gangs);

 private:
  void AddNodes(controller::Draft& draft, const ClusterSize& size);
  void AddJobs(controller::Draft& draft, uint32_t count);
  void EndJob(controller::Draft& draft, uint64_t job_id);

  const uint64_t seed_;
  uint64_t drawn_ = 0;  // of the seed's random numbers
  std::vector<std::shared_ptr<const controller::JobSettings>> shapes_;
  std::shared_ptr<const controller::Snapshot> snapshot_;
  std::vector<uint64_t> running_;  // in the order of placement
  size_t first_running_ = 0;
};

}  // namespace muster::benchmarks
