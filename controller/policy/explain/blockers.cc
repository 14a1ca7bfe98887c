#include "controller/policy/explain/blockers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/units.h"
#include "controller/policy/limits/dependencies.h"
#include "controller/policy/placement/preemption.h"

namespace muster::controller {
namespace {

class Naming {
 public:
  Naming(const Snapshot& snapshot, const Job& job, const ScheduleContext& context)
      : snapshot_(snapshot), job_(job), context_(context) {}

  std::vector<Blocker> Run() {
    People();
    LastAttempt();
    Dependencies();
    Times();
    return std::move(out_);
  }

 private:
  void Block(Blocker blocker) { out_.push_back(std::move(blocker)); }

  void People() {
    if (job_.held) {
      Block({.kind = BlockerKind::kHeld,
             .message = absl::StrCat("held: `muster release ", job_.id, "` lets it start"),
             .needed = "a release"});
    }
    if (job_.state == JobState::kSuspended || job_.suspending) {
      Block({.kind = BlockerKind::kSuspended,
             .message = absl::StrCat("suspended: `muster resume ", job_.id, "` lets it go on"),
             .needed = "a resume"});
    }
  }

  void LastAttempt() {
    if (job_.state == JobState::kRecovering) {
      const auto& ranks = job_.current->ranks;
      const auto ended = std::count_if(ranks.begin(), ranks.end(),
                                       [](const Rank& rank) { return HasEnded(rank.state); });
      Block({.kind = BlockerKind::kLeaving,
             .message = "its last attempt is still being stopped",
             .needed = absl::StrCat(ranks.size(), ranks.size() == 1 ? " rank" : " ranks", " ended"),
             .available = absl::StrCat(ended)});
    }
    const uint64_t first = WaitingPreemptor(snapshot_, job_, snapshot_.LedgerTime(context_.now));
    if (first == 0) return;
    Block({.kind = BlockerKind::kMadeWay,
           .message = absl::StrCat("it made way for ", NameOf(*snapshot_.FindJob(first)),
                                   ", which gets the slots first"),
           .needed = absl::StrCat("the start of job ", first),
           .job_id = first});
  }

  void Dependencies() {
    if (EvaluateDependencies(snapshot_, job_).state == DependencyOutlook::kMet) return;
    for (const SchedulingSettings::Dependency& other : job_.settings->scheduling.after) {
      const DependencyStatus status = EvaluateDependency(snapshot_, other);
      if (status.state == DependencyOutlook::kMet) continue;
      const Job* before = snapshot_.FindJob(status.job_id);
      Block({.kind = BlockerKind::kDependency,
             .message = status.message,
             .needed = absl::StrCat("the end of job ", other.job_id),
             .available = before == nullptr ? "" : std::string(JobStateName(before->state)),
             .job_id = status.job_id});
    }
  }

  void Times() {
    const absl::Time begin = job_.settings->scheduling.begin;
    if (begin > context_.wall) {
      Block({.kind = BlockerKind::kBegin,
             .message = "it may not begin yet (scheduling.begin)",
             .needed = TimeText(begin),
             .available = TimeText(context_.wall)});
    }
    if (job_.state != JobState::kPending || job_.not_before_at <= context_.now) return;
    const absl::Duration wait = job_.not_before_at - context_.now;
    Block({.kind = BlockerKind::kBackoff,
           .message = absl::StrCat("it was lost, and waits ", HumanDuration(wait),
                                   " more before the next try"),
           .needed = TimeText(context_.wall + wait),
           .available = TimeText(context_.wall)});
  }

  const Snapshot& snapshot_;
  const Job& job_;
  const ScheduleContext& context_;
  std::vector<Blocker> out_;
};

}  // namespace

std::string NameOf(const Job& job) {
  return absl::StrCat("job ", job.id, " (", job.settings->name, ")");
}

std::string TimeText(absl::Time time) {
  return absl::StrCat(absl::FormatTime("%Y-%m-%d %H:%M:%S", time, absl::UTCTimeZone()), " UTC");
}

std::vector<Blocker> AdmissionBlockers(const Snapshot& snapshot, const Job& job,
                                       const ScheduleContext& context) {
  return Naming(snapshot, job, context).Run();
}

}  // namespace muster::controller
