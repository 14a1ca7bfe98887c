// What a job needs of a worker, with what follows for the workers of an index: which may hold its
// ranks at all, and how many ranks they could hold when idle. Jobs with the same needs share one.
//
// Both answers follow from the workers' facts alone and are worked out anew only when those have
// changed. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "controller/model/types/job_types.h"
#include "controller/policy/placement/id_set.h"
#include "controller/policy/placement/worker_index.h"

namespace muster::controller {

class Demand {
 public:
  explicit Demand(JobNeeds needs);

  // Two jobs with equal keys have equal needs.
  static std::string KeyOf(const JobNeeds& needs);

  const JobNeeds& needs() const { return needs_; }
  SlotKind kind() const { return needs_.slot_kind; }
  uint32_t min_slots() const { return needs_.min_ranks * needs_.slots_per_rank; }
  // Whether the number of free slots alone decides how many ranks a worker holds.
  bool only_slots() const { return only_slots_; }

  // The workers that may hold ranks of it, whatever is free there; null: all of the pool.
  const IdSet* Eligible(const WorkerIndex& index);
  // Whether one of the workers that take work and suit it is ruled out for what it says of its
  // data.
  bool IsDataRuledOut(const WorkerIndex& index);
  // How many ranks fit on the worker now.
  uint32_t RanksOn(const WorkerIndex::Node& node) const;
  // How many would fit on the usable workers of the partition if all were idle.
  uint64_t RanksWhenIdle(const WorkerIndex& index, int partition);

  uint32_t RanksOnIdle(const WorkerIndex::Node& node) const;

  // Slots, CPUs and memory for `ranks` of it on the worker. Requires that they fit.
  Grant GrantOn(const WorkerIndex& index, uint64_t worker_id, uint32_t ranks) const;

 private:
  void Refresh(const WorkerIndex& index);

  const JobNeeds needs_;
  bool picky_;  // by the workers' facts, not every one of the pool will do
  bool looks_;  // and each must see its checkpoint root, or its data
  bool only_slots_;
  uint64_t facts_version_ = 0;
  bool fresh_ = false;
  IdSet eligible_;
  bool all_eligible_ = false;
  bool data_ruled_out_ = false;
  std::map<int, uint64_t> when_idle_;  // by partition
};

}  // namespace muster::controller
