// Jobs that people submit.
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "controller/policy/checkpoints/resume_rules.h"
#include "controller/policy/health/eligibility.h"
#include "controller/policy/limits/dependencies.h"
#include "controller/policy/limits/quota.h"
#include "controller/policy/limits/time_limits.h"
#include "controller/rules/projects/hard_limits.h"
#include "controller/rules/rules.h"

namespace muster::controller {
namespace {

// The job that has this key, durable or in this draft; null: none. UNAVAILABLE: it was archived
// after this submit asked for it, or may have been.
absl::StatusOr<const Job*> FindByKey(const Draft& draft, const SubmitJob& event,
                                     const RuleContext& context) {
  if (event.idempotency_key.empty()) return nullptr;
  const auto it = context.idempotency->find({event.owner, event.idempotency_key});
  if (it != context.idempotency->end()) {
    const Job* job = draft.view().FindJob(it->second);
    if (job == nullptr) job = draft.FindNewJob(event.owner, event.idempotency_key);
    if (job == nullptr) {
      return absl::UnavailableError("the job of this idempotency key is being archived: try again");
    }
    return job;
  }
  if (const Job* added = draft.FindNewJob(event.owner, event.idempotency_key)) return added;
  if (context.now_at - event.key_sought_at >= kArchivedKeyKept) {
    return absl::UnavailableError(
        "the submit waited so long that its idempotency key has to be looked for again: try again");
  }
  return nullptr;
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

// Whether the job may ever start, as to time and to other jobs.
absl::Status CanEverStart(const Snapshot& snapshot, const SchedulingSettings& scheduling,
                          absl::Time now) {
  MUSTER_RETURN_IF_ERROR(CanKeepTimes(scheduling, now));
  for (const SchedulingSettings::Dependency& other : scheduling.after) {
    if (snapshot.FindJob(other.job_id) == nullptr) {
      return absl::NotFoundError(absl::StrCat("scheduling.after: job ", other.job_id,
                                              ": no such job; `muster ls` lists them"));
    }
    const DependencyStatus status = EvaluateDependency(snapshot, other);
    if (status.state == DependencyOutlook::kNever) {
      return absl::FailedPreconditionError(absl::StrCat("refused: ", status.message));
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

// Tells the folders of jobs with the same id apart: another controller counts its jobs from 1 as
// well, and one that was set back to a copy of its data folder gives ids a second time.
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
  if (first) job.idempotency_key = event.idempotency_key;
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

absl::StatusOr<std::vector<uint64_t>> EvaluateSubmit(const Draft& draft, const SubmitJob& event,
                                                     absl::Time wall, absl::Duration now) {
  MUSTER_RETURN_IF_ERROR(CanEverFit(draft.view(), event.settings->needs, now));
  MUSTER_RETURN_IF_ERROR(CheckQuotas(draft, event));
  MUSTER_RETURN_IF_ERROR(CheckRoots(draft, event.settings->needs.root));
  MUSTER_RETURN_IF_ERROR(CanEverStart(draft.view(), event.settings->scheduling, wall));
  if (!event.resume.has_value()) return std::vector<uint64_t>();
  return ResolveResume(draft, *event.settings, *event.resume);
}

EventResult OnSubmit(Draft& draft, const SubmitJob& asked, const RuleContext& context) {
  EventResult result;
  const absl::StatusOr<const Job*> known = FindByKey(draft, asked, context);
  if (!known.ok()) return Refuse(known.status());
  if (const Job* same = *known) {
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
      EvaluateSubmit(draft, asked, context.now, context.now_at);
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

}  // namespace muster::controller
