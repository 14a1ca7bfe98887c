// The workers, as placement looks for them: by partition (pool and kind of slot) and number of free
// slots. Nobody scans all workers to place a gang.
//
// The scheduler keeps one and feeds it with each worker's row that changed; Take and Give move
// slots within a plan in the making and are taken back before the next feed, so that an index is a
// function of the rows and the time of the last Advance alone. Not thread-safe; the rows must
// outlive it or their next Put.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/model/snapshot.h"
#include "controller/policy/health/quarantine_rules.h"
#include "controller/policy/placement/id_set.h"

namespace muster::controller {

// What one worker gives to a gang.
struct Grant {
  uint64_t worker_id = 0;
  std::vector<uint32_t> slots;  // ascending
  uint32_t cpus = 0;
  uint64_t memory_bytes = 0;
};

class WorkerIndex {
 public:
  static constexpr size_t kGrades = 4;

  // Of one kind on one worker.
  struct Slots {
    int partition = -1;  // -1: the worker has none of the kind
    uint32_t total = 0;
    std::vector<uint32_t> free;  // descending: the lowest is taken first
    bool mixed = false;          // of several models
  };
  struct Node {
    const Worker* worker = nullptr;
    std::array<Slots, 2> kinds;
    uint32_t free_cpus = 0;
    uint64_t free_memory = 0;
    bool takes_work = false;
    bool usable = false;  // present, or expected back: not lost, draining or cordoned
    size_t grade = 0;     // incidents against it lately, kGrades - 1 at most: others go first
    absl::Time fades = absl::InfiniteFuture();  // when fewer count
  };
  struct Partition {
    std::string pool;
    SlotKind kind = SlotKind::kCpu;
    // [grade][free slots]: workers that take work.
    std::array<std::vector<IdSet>, kGrades> by_free;
    uint64_t free_slots = 0;                            // on workers that take work
    uint64_t usable_slots = 0;                          // free or held, on workers that are usable
    uint32_t ready_workers = 0;                         // that take work
    std::array<uint32_t, kGrades> ready_by_grade = {};  // of them
    IdSet workers;                                      // all
  };

  // The worker's row is new or another one. `now` is ledger time; without it no failure counts.
  void Put(const Worker& worker, absl::Time now = absl::InfiniteFuture(),
           absl::Duration incident_window = kIncidentWindow);
  // The worker is known no more.
  void Remove(uint64_t id);
  // Incidents have grown old since.
  void Advance(absl::Time now, absl::Duration incident_window);

  // -1: no worker has such slots.
  int FindPartition(const std::string& pool, SlotKind kind) const;
  const Partition& partition(int at) const { return partitions_[at]; }
  size_t partitions() const { return partitions_.size(); }
  const Node& node(uint64_t worker_id) const { return nodes_[worker_id]; }
  size_t nodes() const { return nodes_.size(); }

  // Grows whenever what the workers are, who of them is usable or takes work, or which checkpoint
  // roots or data they see has changed.
  uint64_t facts_version() const { return facts_version_; }

  // Requires that the slots are free.
  void Take(const Grant& grant, SlotKind kind);
  // Undoes a Take.
  void Give(const Grant& grant, SlotKind kind);

  static size_t At(SlotKind kind) { return kind == SlotKind::kGpu ? 1 : 0; }

 private:
  void Count(uint64_t id, int sign);  // the node, into its partitions or out of them
  void Move(uint64_t id, const Slots& slots, bool in);
  int AddPartition(const std::string& pool, SlotKind kind);

  std::vector<Node> nodes_;  // by worker id
  std::vector<Partition> partitions_;
  std::map<std::pair<std::string, SlotKind>, int> partition_ids_;
  uint64_t facts_version_ = 0;
  std::set<std::pair<absl::Time, uint64_t>> fading_;  // workers with failures, by when these fade
};

}  // namespace muster::controller
