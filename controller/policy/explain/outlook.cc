#include "controller/policy/explain/outlook.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/model/draft.h"
#include "controller/policy/explain/what_if.h"
#include "controller/policy/limits/run_time.h"
#include "controller/policy/limits/time_limits.h"
#include "controller/policy/scheduler.h"

namespace muster::controller {
namespace {

// An end is asked for as of this much earlier: once it has come it is not expected any more.
constexpr absl::Duration kTick = absl::Milliseconds(1);

bool ShareAPool(const JobNeeds& a, const JobNeeds& b) {
  if (a.slot_kind != b.slot_kind) return false;
  return std::any_of(a.pools.begin(), a.pools.end(), [&b](const JobNeeds::Pool& pool) {
    return std::any_of(b.pools.begin(), b.pools.end(),
                       [&pool](const JobNeeds::Pool& other) { return other.name == pool.name; });
  });
}

// The copy of the world, and its time.
class Rehearsal {
 public:
  Rehearsal(const Snapshot& snapshot, uint64_t job_id, const ScheduleContext& context)
      : world_(std::make_shared<const Snapshot>(snapshot)), context_(context), job_id_(job_id) {
    context_.settings.max_messages = 0;
    Draft draft(*world_);
    for (uint64_t id : *world_->active_jobs) {
      const Job& job = *world_->FindJob(id);
      if (job.state == JobState::kRecovering) {
        EndAttempt(draft, id, job.suspending ? JobState::kSuspended : JobState::kPending, context_);
      } else if (job.state == JobState::kStopping) {
        EndAttempt(draft, id, JobState::kCancelled, context_);
      }
    }
    world_ = draft.Finish();
  }

  Outlook Run() {
    const size_t jobs = std::max<size_t>(world_->active_jobs->size(), 1);
    const size_t moments = std::min(kOutlookWork / jobs, kMaxOutlookMoments);
    for (size_t moment = 0; moment < moments; ++moment) {
      const Decision decision = scheduler_.Decide(*world_, context_);
      for (const PlaceGang& gang : decision.plan.place) {
        if (gang.job_id != job_id_) continue;
        out_.start = context_.wall;
        out_.ranks = gang.ranks;
        return std::move(out_);
      }
      Apply(decision.plan);
      // There may be more to do at this moment, now that this is done.
      if (!decision.plan.place.empty() || !decision.plan.stop.empty()) continue;
      const absl::Time next = NextMoment(decision);
      if (next == absl::InfiniteFuture()) return Unknown(WhyNever());
      context_.now += next - context_.wall;
      context_.wall = next;
      EndWhatIsOver();
      if (world_->FindJob(job_id_)->state != JobState::kPending) return Unknown(WhyOver());
    }
    return Unknown(absl::StrCat("more than ", moments, " ends and starts come before it"));
  }

 private:
  Outlook Unknown(std::string why) {
    out_.why_unknown = std::move(why);
    out_.rests_on.clear();
    return std::move(out_);
  }

  void Apply(const Plan& plan) {
    if (plan.place.empty() && plan.stop.empty()) return;
    Draft draft(*world_);
    for (const PlaceGang& gang : plan.place) StartGang(draft, gang, context_);
    for (const StopGang& stop : plan.stop) StopAtOnce(draft, stop, context_);
    world_ = draft.Finish();
  }

  // When the next job ends, or time alone changes something.
  absl::Time NextMoment(const Decision& decision) const {
    absl::Time next = absl::InfiniteFuture();
    const auto consider = [&](absl::Time at) {
      if (at != absl::InfiniteFuture()) next = std::min(next, std::max(at, context_.wall + kTick));
    };
    if (decision.due_at != absl::InfiniteDuration()) {
      consider(context_.wall + (decision.due_at - context_.now));
    }
    for (uint64_t id : *world_->active_jobs) {
      const Job& job = *world_->FindJob(id);
      consider(job.settings->scheduling.deadline);
      if (job.has_live_attempt()) {
        consider(ExpectedEnd(*world_, job, {.wall = context_.wall, .now = context_.now}));
      }
    }
    return next;
  }

  void EndWhatIsOver() {
    Draft draft(*world_);
    for (uint64_t id : *world_->active_jobs) {
      const Job& job = *world_->FindJob(id);
      if (job.has_live_attempt()) {
        const absl::Time end =
            ExpectedEnd(*world_, job, {.wall = context_.wall - kTick, .now = context_.now - kTick});
        if (end <= context_.wall) {
          NoteEnd(job, end);
          EndAttempt(draft, id, JobState::kSucceeded, context_);
          continue;
        }
      }
      const std::optional<PassedLimit> limit =
          EvaluateLimits(*world_, job, {context_.wall, context_.now});
      if (!limit.has_value()) continue;
      if (id == job_id_) why_over_ = limit->message;
      if (job.has_live_attempt()) NoteEnd(job, context_.wall);
      EndAttempt(
          draft, id,
          limit->input == JobInput::kDependencyFailed ? JobState::kCancelled : JobState::kFailed,
          context_);
    }
    world_ = draft.Finish();
  }

  void NoteEnd(const Job& job, absl::Time end) {
    const JobSettings& mine = *world_->FindJob(job_id_)->settings;
    const auto& after = mine.scheduling.after;
    const bool waited_for = std::any_of(after.begin(), after.end(), [&](const auto& dependency) {
      return dependency.job_id == job.id || dependency.job_id == job.array.array_id;
    });
    if (!waited_for && !ShareAPool(mine.needs, job.settings->needs)) return;
    out_.rests_on.push_back(
        {.job_id = job.id, .source = SourceOfRunTimeLeft(*world_, job), .end = end});
  }

  std::string WhyOver() const {
    return why_over_.empty() ? "something else ends it before" : absl::StrCat(why_over_, " before");
  }

  // Who holds on to what it waits for, and nobody knows for how long.
  std::string WhyNever() const {
    const JobNeeds& needs = world_->FindJob(job_id_)->settings->needs;
    for (uint64_t id : *world_->active_jobs) {
      const Job& job = *world_->FindJob(id);
      if (!job.has_live_attempt() || !ShareAPool(needs, job.settings->needs)) continue;
      const std::string name = absl::StrCat("job ", id, " (", job.settings->name, ")");
      if (SourceOfRunTimeLeft(*world_, job) != RunTimeSource::kUnknown) {
        return absl::StrCat(name, " runs for longer than expected, and has no limit");
      }
      return absl::StrCat("nobody can tell when ", name,
                          " will end: it declares neither scheduling.expected_run_time nor "
                          "scheduling.max_run_time, none of its name has succeeded before, and "
                          "its own progress does not tell yet");
    }
    return "nothing that is expected to happen lets it start";
  }

  std::shared_ptr<const Snapshot> world_;
  ScheduleContext context_;
  const uint64_t job_id_;
  Scheduler scheduler_;
  Outlook out_;
  std::string why_over_;
};

}  // namespace

Outlook LookAhead(const Snapshot& snapshot, uint64_t job_id, const ScheduleContext& context) {
  if (snapshot.active_jobs->size() > kMaxOutlookJobs) {
    Outlook outlook;
    outlook.why_unknown = absl::StrCat("more than ", kMaxOutlookJobs, " jobs are active");
    return outlook;
  }
  return Rehearsal(snapshot, job_id, context).Run();
}

}  // namespace muster::controller
