// What the scheduler decides: each gang is checked again against the current state, and placed.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "controller/policy/checkpoints/resume_rules.h"
#include "controller/policy/health/data_sight.h"
#include "controller/policy/health/eligibility.h"
#include "controller/policy/limits/quota.h"
#include "controller/policy/queue/admission.h"
#include "controller/rules/jobs/data_look_rules.h"
#include "controller/rules/jobs/job_driver.h"
#include "controller/rules/jobs/preemption_rules.h"
#include "controller/rules/rules.h"

namespace muster::controller {
namespace {

// Checks the gangs of one plan against the quotas, each with those before it.
class QuotaGate {
 public:
  explicit QuotaGate(const Draft& draft) : draft_(draft) {}

  // Whether the quotas of the gang's project and owner leave room for it; then it counts.
  bool Pass(const PlaceGang& gang) {
    const Job& job = *draft_.view().FindJob(gang.job_id);
    const std::string& name = job.settings->project;
    const QuotaHolder holder{
        .project = draft_.view().FindProject(name), .project_name = name, .user = job.owner};
    if (holder.project == nullptr) return true;
    const auto [use, fresh] = use_.try_emplace(name);
    if (fresh) use->second = draft_.UseOf(name);
    uint32_t slots = 0;
    for (const RankPlacement& rank : gang.ranks) slots += rank.slots.size();
    if (WhyOverSlots(holder, use->second, slots).has_value()) return false;
    use->second.all.slots += slots;
    use->second.users[job.owner].slots += slots;
    return true;
  }

 private:
  const Draft& draft_;
  std::map<std::string, ProjectUse> use_;
};

// Whether the proposal still fits the current state.
bool StillFits(const Snapshot& snapshot, const PlaceGang& gang, const ScheduleContext& context) {
  const Job* job = snapshot.FindJob(gang.job_id);
  if (job == nullptr || job->state != JobState::kPending || job->attempt + 1 != gang.attempt ||
      Admit(snapshot, *job, context).decision != Admission::Decision::kReady) {
    return false;
  }
  // The limits loop ends it (policy/limits/time_limits).
  if (WhyNothingToResume(snapshot, *job).has_value()) return false;
  const JobNeeds& needs = job->settings->needs;
  if (gang.ranks.size() < needs.min_ranks || gang.ranks.size() > needs.max_ranks) return false;
  std::set<std::string> fingerprints;
  std::map<uint64_t, uint32_t> ranks_on;  // by worker
  std::set<std::pair<uint64_t, uint32_t>> seen;
  std::set<std::string> pools;
  for (const RankPlacement& rank : gang.ranks) {
    const Worker* worker = snapshot.FindWorker(rank.worker);
    if (worker == nullptr || !TakesWork(*worker, needs)) return false;
    if (!CanUseRoot(*worker, needs)) return false;
    // What most workers found has been compared with it already.
    const DataStanding standing = StandingByItself(*worker, needs.data, context.now);
    if (standing != DataStanding::kSound) return false;
    const DataView* view = DataViewOf(*worker, needs.data);
    if (view != nullptr && !view->fingerprint.empty()) fingerprints.insert(view->fingerprint);
    if (rank.slots.size() != needs.slots_per_rank) return false;
    pools.insert(worker->facts.pool);
    ++ranks_on[worker->id];
    const std::vector<Slot>& slots = worker->facts.slots;
    for (uint32_t wanted : rank.slots) {
      const bool has_slot = std::any_of(slots.begin(), slots.end(), [&](const Slot& slot) {
        return slot.index == wanted && SlotMatches(slot, needs);
      });
      if (!has_slot || worker->pulse.holders.count(wanted) != 0) return false;
      if (!seen.insert({worker->id, wanted}).second) return false;
    }
  }
  for (const auto& [id, ranks] : ranks_on) {
    if (!HasCpusAndMemory(*snapshot.workers.Find(id), needs, ranks)) return false;
  }
  return pools.size() == 1 && fingerprints.size() <= 1;
}

void Place(Draft& draft, const PlaceGang& gang, const RuleContext& context) {
  Attempt attempt;
  attempt.number = gang.attempt;
  attempt.term = draft.view().term;
  attempt.started = context.now;
  attempt.placed_at = context.now_at;
  attempt.resume = ResumeCandidates(draft.view(), *draft.view().FindJob(gang.job_id));
  if (!attempt.resume.empty()) {
    attempt.first_step = draft.view().FindCheckpoint(attempt.resume.front())->step;
  }
  attempt.last_step = attempt.first_step;
  std::set<uint64_t> workers;
  for (size_t i = 0; i < gang.ranks.size(); ++i) {
    const RankPlacement& placement = gang.ranks[i];
    const Worker* worker = draft.view().FindWorker(placement.worker);
    Rank rank;
    rank.rank = i;
    rank.worker = placement.worker;
    rank.incarnation = worker->incarnation;
    rank.slots = placement.slots;
    rank.local_rank = placement.local_rank;
    const JobNeeds& needs = draft.view().FindJob(gang.job_id)->settings->needs;
    HoldSlots(draft.EditPulse(worker->id), needs, gang.job_id, gang.attempt, rank);
    attempt.ranks.push_back(std::move(rank));
    workers.insert(worker->id);
  }
  const Fence fence{.job_id = gang.job_id,
                    .attempt = attempt.number,
                    .generation = attempt.generation,
                    .term = draft.view().term};
  draft.AddAttempt(gang.job_id, std::move(attempt));
  for (uint64_t id : workers) {
    const Worker& worker = *draft.view().workers.Find(id);
    OutboxRow row;
    row.worker = worker.name;
    row.incarnation = worker.incarnation;
    row.kind = AssignmentKind::kStart;
    row.fence = fence;
    draft.AddOutbox(std::move(row));
  }
  draft.after_commit().opened.push_back(fence);
}

}  // namespace

EventResult OnPlan(Draft& draft, const ApplyPlan& event, const RuleContext& context) {
  EventResult result;
  QuotaGate quotas(draft);
  const ScheduleContext admission{.now = context.now_at, .wall = context.now};
  for (const StopGang& stop : event.plan.stop) StopRunningGang(draft, stop, context);
  for (const PlaceGang& gang : event.plan.place) {
    // The state changed meanwhile, or what was found of its data is too old by now: the scheduler
    // decides again.
    if (!StillFits(draft.view(), gang, admission) || !quotas.Pass(gang)) {
      result.partly_void = true;
      continue;
    }
    Place(draft, gang, context);
    const absl::Status placed = DriveJob(
        draft, gang.job_id,
        {.input = JobInput::kPlaced, .actor = "scheduler", .message = gang.reason}, context);
    MUSTER_CHECK(placed.ok(), "a waiting job refused its placement");
  }
  for (const Waiting& waiting : event.plan.waiting) {
    const Job* job = draft.view().FindJob(waiting.job_id);
    if (job == nullptr || job->state != JobState::kPending) continue;
    draft.ShowMessage(waiting.job_id, waiting.message);
  }
  AskForDataLooks(draft, event.plan.looks, context);
  EndJobsWithoutData(draft, event.plan.without_data, context);
  return result;
}

}  // namespace muster::controller
