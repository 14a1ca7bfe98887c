// What people ask for, and what the scheduler proposes.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/planted_bug.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "controller/engine/job_driver.h"
#include "controller/engine/make_way_rules.h"
#include "controller/engine/queue_bounds.h"
#include "controller/engine/rules.h"
#include "controller/policy/admission.h"
#include "controller/policy/capacity.h"
#include "controller/policy/dependencies.h"
#include "controller/policy/quota.h"
#include "controller/policy/resume_rules.h"
#include "controller/policy/time_limits.h"

namespace muster::controller {
namespace {

// The job that has this key, durable or in this draft; null: none.
const Job* FindByKey(const Draft& draft, const SubmitJob& event, const RuleContext& context) {
  if (event.idempotency_key.empty()) return nullptr;
  const auto it = context.idempotency->find({event.owner, event.idempotency_key});
  if (it != context.idempotency->end()) {
    const Job* job = draft.view().FindJob(it->second);
    // The job with this key is forgotten in this very batch. An earlier submit of the batch may
    // already have made a new job with the same key.
    if (job == nullptr) return draft.FindNewJob(event.owner, event.idempotency_key);
    const bool forgotten = Planted(PlantedBug::kNoRequestId) && IsTerminal(job->state);
    return forgotten ? nullptr : job;
  }
  return draft.FindNewJob(event.owner, event.idempotency_key);
}

absl::Status CheckQuotas(const Draft& draft, const SubmitJob& event) {
  const uint32_t jobs = event.array.has_value() ? event.array->size() : 1;
  const JobSettings& settings = *event.settings;
  MUSTER_RETURN_IF_ERROR(MayAddProject(draft, settings.project));
  MUSTER_RETURN_IF_ERROR(MayAddJobs(draft, jobs));
  const QuotaHolder holder{.project = draft.view().FindProject(settings.project),
                           .project_name = settings.project,
                           .user = event.owner};
  if (holder.project == nullptr) return absl::OkStatus();
  const JobNeeds& needs = settings.needs;
  MUSTER_RETURN_IF_ERROR(FitsQuota(holder, needs.min_ranks * needs.slots_per_rank));
  return MayQueue(holder, draft.UseOf(settings.project), jobs);
}

// By what the client sent: what it left out may have another default by now. Where that is not
// known of both, by the resolved spec.
bool SameSubmit(const JobSettings& a, const JobSettings& b) {
  const bool known = !a.written_spec.empty() && !b.written_spec.empty();
  return known ? a.written_spec == b.written_spec : a.spec == b.spec;
}

// Judges the gangs of one plan against the quotas, each with those before it.
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

// Whether the proposal still fits the world.
bool StillFits(const Snapshot& snapshot, const PlaceGang& gang, const ScheduleContext& context) {
  const Job* job = snapshot.FindJob(gang.job_id);
  if (job == nullptr || job->state != JobState::kPending || job->attempt + 1 != gang.attempt ||
      Admit(snapshot, *job, context).verdict != Admission::Verdict::kReady) {
    return false;
  }
  // The limits loop ends it (policy/time_limits).
  if (WhyNothingToResume(snapshot, *job).has_value()) return false;
  const JobNeeds& needs = job->settings->needs;
  if (gang.ranks.size() < needs.min_ranks || gang.ranks.size() > needs.max_ranks) return false;
  std::map<uint64_t, uint32_t> ranks_on;  // by worker
  std::set<std::pair<uint64_t, uint32_t>> seen;
  std::set<std::string> pools;
  for (const RankPlacement& rank : gang.ranks) {
    const Worker* worker = snapshot.FindWorker(rank.worker);
    if (worker == nullptr || !TakesWork(*worker, needs)) return false;
    if (!CanUseRoot(*worker, needs)) return false;
    if (rank.slots.size() != needs.slots_per_rank) return false;
    pools.insert(worker->facts.pool);
    ++ranks_on[worker->id];
    const std::vector<Slot>& slots = worker->facts.slots;
    for (uint32_t wanted : rank.slots) {
      const bool has_slot = std::any_of(slots.begin(), slots.end(), [&](const Slot& slot) {
        return slot.index == wanted && SlotMatches(slot, needs);
      });
      if (!has_slot || worker->holders.count(wanted) != 0) return false;
      if (!seen.insert({worker->id, wanted}).second) return false;
    }
  }
  for (const auto& [id, ranks] : ranks_on) {
    if (!HasRoom(*snapshot.workers.Find(id), needs, ranks)) return false;
  }
  return pools.size() == 1;
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
    HoldSlots(draft.EditWorkerView(worker->id), needs, gang.job_id, gang.attempt, rank);
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

// Whether the job may ever start, as to time and to other jobs.
absl::Status CanEverStart(const Snapshot& snapshot, const SchedulingSettings& scheduling,
                          absl::Time now) {
  MUSTER_RETURN_IF_ERROR(CanKeepTimes(scheduling, now));
  for (const SchedulingSettings::Dependency& other : scheduling.after) {
    if (snapshot.FindJob(other.job_id) == nullptr) {
      return absl::NotFoundError(absl::StrCat("scheduling.after: job ", other.job_id,
                                              ": no such job; `muster ls` lists them"));
    }
    const DependencyVerdict verdict = JudgeDependency(snapshot, other);
    if (verdict.state == DependencyOutlook::kNever) {
      return absl::FailedPreconditionError(absl::StrCat("refused: ", verdict.message));
    }
  }
  return absl::OkStatus();
}

// Whether so many different roots may be in use.
absl::Status CheckRoots(const Draft& draft, const std::string& root) {
  const std::map<std::string, RootInUse>& known = *draft.view().roots_in_use;
  if (root.empty() || known.count(root) != 0) return absl::OkStatus();
  std::set<absl::string_view> fresh;
  for (uint64_t id : draft.new_job_ids()) {
    const std::string& other = draft.view().FindJob(id)->settings->needs.root;
    if (known.count(other) == 0) fresh.insert(other);
  }
  if (fresh.count(root) != 0 || known.size() + fresh.size() < kMaxRootsInUse) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("checkpoint.url: jobs that have not ended use ", kMaxRootsInUse,
                   " different folders already: use one of them, each job has its own in it"));
}

// What the job's first event says.
std::string QueuedText(const Draft& draft, const SubmitJob& event) {
  const std::string text = event.settings->scheduling.hold ? "queued, held" : "queued";
  if (!event.resume.has_value()) return text;
  const std::vector<uint64_t>& resume_from = event.settings->resume_from;
  return absl::StrCat(text, "; begins from ",
                      resume_from.empty() ? "nothing: no job of its name has a checkpoint"
                                          : ResumeText(draft.view(), resume_from));
}

// Of the jobs that this controller takes at this time. Another controller counts its jobs from 1 as
// well, and one that went back to a copy of its data folder gives numbers a second time.
std::string FolderTag(const std::string& controller_id, absl::Time submitted) {
  uint64_t state = SplitMix64(static_cast<uint64_t>(absl::ToUnixNanos(submitted)));
  for (const char byte : controller_id) state = SplitMix64(state ^ static_cast<uint8_t>(byte));
  return absl::StrCat(absl::Hex(state >> 16, absl::kZeroPad12));
}

uint64_t AddOne(Draft& draft, const SubmitJob& event, const ArrayTask& task,
                const RuleContext& context) {
  const bool first = task.array_id == 0 || task.array_id == draft.view().jobs.last_id() + 1;
  Job job;
  job.settings = event.settings;
  job.owner = event.owner;
  // The key stands for all jobs of the submit, with the first of them.
  const bool forgotten = Planted(PlantedBug::kNoRequestId) &&
                         context.idempotency->count({event.owner, event.idempotency_key}) != 0;
  if (first && !forgotten) job.idempotency_key = event.idempotency_key;
  job.submitted = context.now;
  job.message = QueuedText(draft, event);
  job.not_before_at = context.now_at;
  job.held = event.settings->scheduling.hold;
  job.array = task;
  job.folder_tag = FolderTag(draft.view().controller_id, context.now);
  const Job& added = draft.AddJob(std::move(job));
  draft.AddEvent({.sequence = 0,
                  .job_id = added.id,
                  .time = context.now,
                  .from = JobState::kPending,
                  .to = JobState::kPending,
                  .reason = Reason::kSubmitted,
                  .actor = absl::StrCat("user:", event.owner),
                  .message = added.message,
                  .attempt = 0});
  return added.id;
}

// The event of a submit that may be taken, with the checkpoints that its jobs begin from.
SubmitJob Settled(const SubmitJob& event, std::vector<uint64_t> resume_from) {
  SubmitJob settled = event;
  if (resume_from == event.settings->resume_from) return settled;
  auto settings = std::make_shared<JobSettings>(*event.settings);
  settings->resume_from = std::move(resume_from);
  settled.settings = std::move(settings);
  return settled;
}

}  // namespace

absl::StatusOr<std::vector<uint64_t>> JudgeSubmit(const Draft& draft, const SubmitJob& event,
                                                  absl::Time wall, absl::Duration now) {
  MUSTER_RETURN_IF_ERROR(CanEverFit(draft.view(), event.settings->needs, now));
  MUSTER_RETURN_IF_ERROR(CheckQuotas(draft, event));
  MUSTER_RETURN_IF_ERROR(CheckRoots(draft, event.settings->needs.root));
  MUSTER_RETURN_IF_ERROR(CanEverStart(draft.view(), event.settings->scheduling, wall));
  if (!event.resume.has_value()) return std::vector<uint64_t>();
  return SettleResume(draft, *event.settings, *event.resume);
}

EventResult OnSubmit(Draft& draft, const SubmitJob& asked, const RuleContext& context) {
  EventResult result;
  if (const Job* same = FindByKey(draft, asked, context)) {
    if (!SameSubmit(*same->settings, *asked.settings)) {
      return Refuse(absl::AlreadyExistsError(
          absl::StrCat("job ", same->id, " was submitted with the same idempotency key (",
                       asked.idempotency_key, ") and another spec: use a new key")));
    }
    result.job_id = same->id;
    if (asked.array.has_value()) result.jobs = asked.array->size();
    result.already_existed = true;
    return result;
  }
  absl::StatusOr<std::vector<uint64_t>> resume_from =
      JudgeSubmit(draft, asked, context.now, context.now_at);
  if (!resume_from.ok()) return Refuse(resume_from.status());
  const SubmitJob event = Settled(asked, *std::move(resume_from));
  if (!event.array.has_value()) {
    result.job_id = AddOne(draft, event, {}, context);
    return result;
  }
  const ArrayRange& range = *event.array;
  result.jobs = range.size();
  result.job_id = draft.view().jobs.last_id() + 1;
  for (uint32_t index = range.first; index <= range.last; ++index) {
    AddOne(draft, event, {.array_id = result.job_id, .index = index, .at_a_time = range.at_a_time},
           context);
  }
  return result;
}

EventResult OnPlan(Draft& draft, const ApplyPlan& event, const RuleContext& context) {
  QuotaGate quotas(draft);
  const ScheduleContext admission{.now = context.now_at, .wall = context.now};
  for (const StopGang& stop : event.plan.stop) MakeWay(draft, stop, context);
  for (const PlaceGang& gang : event.plan.place) {
    // The world moved meanwhile: the scheduler looks again at the next version.
    if (!StillFits(draft.view(), gang, admission) || !quotas.Pass(gang)) continue;
    Place(draft, gang, context);
    const absl::Status placed = DriveJob(
        draft, gang.job_id,
        {.input = JobInput::kPlaced, .actor = "scheduler", .message = gang.reason}, context);
    MUSTER_CHECK(placed.ok(), "a waiting job refused its placement");
  }
  for (const Waiting& waiting : event.plan.waiting) {
    const Job* job = draft.view().FindJob(waiting.job_id);
    if (job == nullptr || job->state != JobState::kPending) continue;
    draft.EditJobView(waiting.job_id).message = waiting.message;
  }
  return {};
}

}  // namespace muster::controller
