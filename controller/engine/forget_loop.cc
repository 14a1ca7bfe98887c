#include "controller/engine/forget_loop.h"

#include <memory>
#include <utility>

#include "common/base/log.h"
#include "controller/policy/ended/ended_jobs_queue.h"

namespace muster::controller {
namespace {

constexpr absl::Duration kLookEvery = absl::Seconds(1);
constexpr absl::Duration kWarnEvery = absl::Hours(1);

}  // namespace

SnapshotLoop::Decide DecideForgetting(const ForgetSettings& settings, absl::Duration start) {
  return [settings, queue = std::make_shared<EndedJobsQueue>(start),
          warned_at = -absl::InfiniteDuration()](const Snapshot& snapshot,
                                                 absl::Duration now) mutable {
    SnapshotLoop::Decision proposal;
    if (!settings.ForgetsAny()) return proposal;
    proposal.due_at = now + kLookEvery;
    ForgetJobs next = queue->Next(snapshot, settings, now);
    if (queue->stuck() > 0 && now - warned_at >= kWarnEvery) {
      warned_at = now;
      Log(LogLevel::kWarning, "ended_jobs_beyond_bound",
          {{"max_ended_jobs", settings.most},
           {"more", queue->stuck()},
           {"hint",
            "jobs with checkpoints stay; raise --max-ended-jobs, or others are forgotten "
            "an hour after their end"}});
    }
    if (!next.jobs.empty()) proposal.event = std::move(next);
    return proposal;
  };
}

}  // namespace muster::controller
