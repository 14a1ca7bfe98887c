#include "controller/policy/explain/queue_position.h"

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "controller/policy/limits/quota_walk.h"
#include "controller/policy/placement/running_jobs.h"
#include "controller/policy/queue/job_queue.h"
#include "controller/policy/queue/queue_order.h"

namespace muster::controller {
namespace {

// Goes through the queue as the scheduler did, up to one job.
class Approach {
 public:
  Approach(const Snapshot& snapshot, const Job& job, const Decision& decision,
           const ScheduleContext& context)
      : snapshot_(snapshot), job_(job), context_(context), own_(snapshot, job.settings->project) {
    for (const PlaceGang& gang : decision.plan.place) {
      const Job& placed = *snapshot.FindJob(gang.job_id);
      slots_[gang.job_id] =
          static_cast<uint32_t>(gang.ranks.size()) * placed.settings->needs.slots_per_rank;
    }
    for (const ReservedJob& reserved : decision.reserved) gets_slots_.insert(reserved.job_id);
    kept_quota_ = decision.kept_quota;
    for (const StopGang& stop : decision.plan.stop) gets_slots_.insert(stop.for_job);
    for (const uint64_t id : *snapshot.active_jobs) {
      const Job& other = *snapshot.FindJob(id);
      if (other.current != nullptr) gets_slots_.insert(other.current->preempted_by);
    }
  }

  QueuePosition Run() {
    for (uint64_t id : *snapshot_.active_jobs) {
      const Job* job = snapshot_.FindJob(id);
      queue_.Put(snapshot_, id, job, context_);
      running_.Put(snapshot_, id, job);
    }
    out_.of_array = queue_.LiveOfArray(job_.array.array_id);
    QueueWalk walk(queue_, [this](const std::string& project) {
      return StandingOf(project, snapshot_, running_, context_);
    });
    for (;;) {
      const QueueWalk::Step step = walk.Next();
      if (step.group == nullptr || step.job_id == job_.id) break;
      const Job& other = *snapshot_.FindJob(step.job_id);
      if (ComesLater(other)) continue;
      if (!IsHeldBack(other)) out_.before.push_back(step.job_id);
      const auto placed = slots_.find(step.job_id);
      if (placed != slots_.end()) walk.Placed(placed->second);
      Pass(other, placed == slots_.end() ? 0 : placed->second);
    }
    out_.over_quota = own_.FullBy(job_.owner);
    out_.use = own_.use();
    out_.with_reserved = own_.with_reserved();
    return std::move(out_);
  }

 private:
  // Its back-off is long, so that it comes later in the queue.
  bool ComesLater(const Job& other) const {
    return other.state == JobState::kPending &&
           other.not_before_at > context_.now + context_.settings.keep_for_back_off;
  }

  // Whether what runs now is all that its array or a quota allows, and no room is made for it.
  bool IsHeldBack(const Job& other) {
    if (other.state == JobState::kRecovering || gets_slots_.count(other.id) != 0) return false;
    const ArrayTask& array = other.array;
    if (array.at_a_time > 0 && queue_.LiveOfArray(array.array_id) >= array.at_a_time) return true;
    const std::string& project = other.settings->project;
    return HoldsBack(running_use_.try_emplace(project, snapshot_, project).first->second, other);
  }

  // Whether a quota holds the job back, after those that `line` has counted.
  static bool HoldsBack(QuotaWalk& line, const Job& job) {
    const JobNeeds& needs = job.settings->needs;
    return line.Pass(job.id, job.owner, needs.min_ranks * needs.slots_per_rank).held_back;
  }

  // What the job before does to its array and to its project's quotas; `slots`: that it got.
  void Pass(const Job& other, uint32_t slots) {
    const bool same_array = job_.array.array_id != 0 && other.array.array_id == job_.array.array_id;
    const bool same_project = other.settings->project == job_.settings->project;
    if (same_project && slots == 0) EvaluateQuota(other);
    const auto kept = kept_quota_.find(other.id);
    if (same_project && kept != kept_quota_.end()) {
      own_.Reserve(other.owner, kept->second);
      if (out_.reserved_for == 0) out_.reserved_for = other.id;
    }
    if (slots == 0) return;
    ++placed_of_array_[other.array.array_id];
    out_.of_array += same_array;
    if (same_project) own_.Take(other.owner, slots);
  }

  void EvaluateQuota(const Job& other) {
    if (other.state == JobState::kRecovering) return;
    const uint64_t array = other.array.array_id;
    const uint32_t of_array = queue_.LiveOfArray(array) + placed_of_array_[array];
    if (other.array.at_a_time > 0 && of_array >= other.array.at_a_time) return;
    HoldsBack(own_, other);
  }

  const Snapshot& snapshot_;
  const Job& job_;
  const ScheduleContext& context_;
  JobQueue queue_;
  RunningJobs running_;
  std::unordered_map<uint64_t, uint32_t> slots_;  // that a job was given
  std::unordered_map<uint64_t, uint32_t> kept_quota_;
  std::unordered_map<uint64_t, uint32_t> placed_of_array_;
  std::unordered_set<uint64_t> gets_slots_;                 // kept for it, or made by others
  QuotaWalk own_;                                           // with what was placed before
  std::unordered_map<std::string, QuotaWalk> running_use_;  // without
  QueuePosition out_;
};

}  // namespace

QueuePosition FindPosition(const Snapshot& snapshot, uint64_t job_id, const Decision& decision,
                           const ScheduleContext& context) {
  return Approach(snapshot, *snapshot.FindJob(job_id), decision, context).Run();
}

}  // namespace muster::controller
