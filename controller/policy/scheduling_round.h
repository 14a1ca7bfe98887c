// One look of the scheduler: goes through the queue in order and fills a plan. What it takes from
// the worker index it gives back at the end, so that the index stands for the snapshot again.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "controller/policy/health/capacity.h"
#include "controller/policy/limits/quota_line.h"
#include "controller/policy/placement/backfill.h"
#include "controller/policy/queue/queue_order.h"
#include "controller/policy/scheduler.h"

namespace muster::controller {

class SchedulingRound {
 public:
  struct World {
    const Snapshot& snapshot;
    const ScheduleContext& context;
    WorkerIndex& index;
    const JobQueue& queue;
    const RunningJobs& running;
    uint32_t passed_over = 0;  // where the last look stopped: Decision::looked_up_to
  };
  explicit SchedulingRound(const World& world);

  // Once.
  Decision Run();

 private:
  struct PartitionState {
    uint64_t reserved_for = 0;  // the first job that does not fit; 0: none so far
    std::vector<Kept> kept;
  };
  // The job in hand.
  struct Candidate {
    const Job& job;
    JobGroup& group;
    bool soon = false;                // only keeps its place
    uint32_t max_ranks = 0;           // within its quotas
    std::vector<int> partitions;      // where it may go by now, in order of preference
    std::set<std::string> failed_on;  // workers to do without where as large a gang fits elsewhere
  };

  // What the candidate's partitions have, and who else gets some of it.
  struct Supply {
    Capacity all;
    std::string others;
  };

  void Consider(QueueWalk& walk, const QueueWalk::Step& step);
  bool IsOver(QueueWalk& walk, const Candidate& candidate);
  bool DisplaceOwn(const Candidate& candidate, const SlotsOver& over);
  void CapByQuota(Candidate& candidate);
  std::vector<int> PartitionsOf(const Job& job) const;
  std::vector<Grant> Fit(const Candidate& candidate, int partition, uint32_t max_ranks);
  bool Start(QueueWalk& walk, const Candidate& candidate, int partition, std::vector<Grant> grants);

  // Backfill into slots that are kept for jobs which start later.
  std::vector<Grant> PlaceInKept(const Candidate& candidate, int partition, absl::Time end);
  bool GroupCouldUseKept(const Candidate& candidate, int partition);
  void KeepOwnSlots(const Candidate& candidate, int partition);
  void ReserveForHead(const Candidate& candidate);
  Reservation ReserveFor(const Candidate& candidate, int partition);
  void TakeReservation(const Candidate& candidate, int partition, Reservation reservation);
  const std::vector<Release>& ReleasesOf(int partition);
  void Collect(const Job& job, absl::Time at, int partition, std::vector<Release>& releases) const;

  // Gangs that are stopped (round_resize.cc).
  Reservation MakeRoomFor(const Candidate& candidate, int partition, Reservation reservation);
  void FreeBy(const std::vector<StopGang>& stops, int partition);
  absl::Time LedgerNow() const { return world_.snapshot.LedgerTime(world_.context.now); }
  void LookAgainIn(absl::Duration wait);  // a wait that is over asks for nothing
  void AwaitShrinking(int32_t priority);
  std::string WhoMakesWayFor(uint64_t job_id) const;
  void GrowElastic();
  // Where a gang would go, and with how many ranks; partition -1: nowhere.
  struct Regrowth {
    int partition = -1;
    uint32_t ranks = 0;
  };
  Regrowth IfStopped(const Job& job, const std::vector<int>& partitions);
  bool IsIdle(int partition, const Job& job) const;
  uint32_t RanksWithinQuotas(const Job& job);

  // `supply`: what its partitions had for it before slots were kept for it.
  void Wait(const Candidate& candidate, const Supply& supply, bool skips_group);
  Capacity SupplyOf(const Candidate& candidate) const;
  // Of the free ones, those that it may not have: ", 2 of them kept for job 7 until ...".
  std::string WhoElseGets(const Candidate& candidate) const;
  void SetWaitReason(const Job& job, std::string message);
  // The same to the jobs of the group that come after, as far as messages go.
  void SetWaitReasonOfRest(const Candidate& candidate, const std::string& message);
  QuotaLine& QuotasOf(const std::string& project);
  bool IsExhausted() const;
  void Undo();

  const World world_;
  Decision decision_;
  std::vector<PartitionState> partitions_;
  std::vector<std::pair<SlotKind, Grant>> taken_;
  std::unordered_map<std::string, QuotaLine> quotas_;  // by project, with this plan
  std::unordered_map<uint64_t, uint32_t> placed_of_array_;
  std::unordered_map<int, std::vector<Release>> releases_;
  uint32_t said_ = 0;
  std::unordered_map<const JobGroup*, bool> could_use_kept_;  // when it was looked at first
  uint32_t backfill_tries_ = 0;
};

}  // namespace muster::controller
