#include "controller/policy/queue_position.h"

#include <optional>
#include <string>
#include <unordered_map>

#include "controller/policy/job_queue.h"
#include "controller/policy/queue_order.h"
#include "controller/policy/quota.h"
#include "controller/policy/running_jobs.h"

namespace muster::controller {
namespace {

// Goes through the queue as the scheduler did, up to one job.
class Approach {
 public:
  Approach(const Snapshot& snapshot, const Job& job, const Decision& decision,
           const ScheduleContext& context)
      : snapshot_(snapshot), job_(job), context_(context) {
    for (const PlaceGang& gang : decision.plan.place) {
      const Job& placed = *snapshot.FindJob(gang.job_id);
      slots_[gang.job_id] =
          static_cast<uint32_t>(gang.ranks.size()) * placed.settings->needs.slots_per_rank;
    }
  }

  QueuePosition Run() {
    for (uint64_t id : *snapshot_.active_jobs) {
      const Job* job = snapshot_.FindJob(id);
      queue_.Put(snapshot_, id, job, context_);
      running_.Put(snapshot_, id, job);
    }
    out_.use = snapshot_.UseOf(job_.settings->project);
    out_.of_array = queue_.LiveOfArray(job_.array.array_id);
    QueueWalk walk(queue_, [this](const std::string& project) { return StandingOf(project); });
    for (;;) {
      const QueueWalk::Step step = walk.Next();
      if (step.group == nullptr || step.job_id == job_.id) break;
      if (HoldsUpNobody(*snapshot_.FindJob(step.job_id))) continue;
      out_.before.push_back(step.job_id);
      const auto placed = slots_.find(step.job_id);
      if (placed != slots_.end()) walk.Placed(placed->second);
      Pass(*snapshot_.FindJob(step.job_id), placed == slots_.end() ? 0 : placed->second);
    }
    const auto of_user = full_users_.find(job_.owner);
    out_.over_quota = full_by_ != 0 ? full_by_ : of_user != full_users_.end() ? of_user->second : 0;
    return std::move(out_);
  }

 private:
  // Its back-off is long, so that its place in the line is later.
  bool HoldsUpNobody(const Job& other) const {
    return other.state == JobState::kPending &&
           other.not_before_at > context_.now + context_.settings.keep_for_back_off;
  }

  Standing StandingOf(const std::string& project) const {
    const absl::Duration half_life = context_.settings.use_half_life;
    Standing standing;
    standing.worth = running_.WorthAt(project, context_.wall, half_life);
    standing.slots_held = snapshot_.UseOf(project).all.slots;
    if (const Project* row = snapshot_.FindProject(project)) {
      standing.worth += WorthAt(row->used, context_.wall, half_life);
      standing.weight = row->weight;
    }
    return standing;
  }

  // What the job before does to its array and to its project's quotas; `slots`: that it got.
  void Pass(const Job& other, uint32_t slots) {
    const bool same_array = job_.array.array_id != 0 && other.array.array_id == job_.array.array_id;
    if (other.settings->project == job_.settings->project && slots == 0) JudgeQuota(other);
    if (slots == 0) return;
    ++placed_of_array_[other.array.array_id];
    out_.of_array += same_array;
    if (other.settings->project != job_.settings->project) return;
    out_.use.all.slots += slots;
    out_.use.users[other.owner].slots += slots;
  }

  // Within a project, and of one user, nobody slips past one that is over quota.
  void JudgeQuota(const Job& other) {
    const std::string& name = other.settings->project;
    const Project* project = snapshot_.FindProject(name);
    if (project == nullptr || other.state == JobState::kRecovering) return;
    const uint64_t array = other.array.array_id;
    const uint32_t of_array = queue_.LiveOfArray(array) + placed_of_array_[array];
    if (other.array.at_a_time > 0 && of_array >= other.array.at_a_time) return;
    const QuotaHolder holder{.project = project, .project_name = name, .user = other.owner};
    const JobNeeds& needs = other.settings->needs;
    const uint32_t slots = needs.min_ranks * needs.slots_per_rank;
    // One that is over even alone holds up nobody.
    if (WhyOverSlots(holder, ProjectUse(), slots).has_value()) return;
    const bool over = WhyOverSlots(holder, out_.use, slots).has_value();
    const bool behind = full_by_ != 0 || full_users_.count(other.owner) != 0;
    if (!over && !behind) return;
    const std::optional<uint32_t>& most = project->quota.slots;
    if (most.has_value() && out_.use.all.slots + slots > *most) {
      if (full_by_ == 0) full_by_ = other.id;
    } else if (over) {
      full_users_.emplace(other.owner, other.id);
    }
  }

  const Snapshot& snapshot_;
  const Job& job_;
  const ScheduleContext& context_;
  JobQueue queue_;
  RunningJobs running_;
  std::unordered_map<uint64_t, uint32_t> slots_;  // that a job was given
  std::unordered_map<uint64_t, uint32_t> placed_of_array_;
  uint64_t full_by_ = 0;                                  // the job that filled the project's quota
  std::unordered_map<std::string, uint64_t> full_users_;  // likewise, a user's
  QueuePosition out_;
};

}  // namespace

QueuePosition FindPosition(const Snapshot& snapshot, uint64_t job_id, const Decision& decision,
                           const ScheduleContext& context) {
  return Approach(snapshot, *snapshot.FindJob(job_id), decision, context).Run();
}

}  // namespace muster::controller
