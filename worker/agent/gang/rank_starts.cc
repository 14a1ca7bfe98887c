#include "worker/agent/gang/rank_starts.h"

#include <utility>

#include "worker/agent/base/path_watch.h"

namespace muster::worker {

void RankStarts::Begin(RankPlan plan) {
  const RankKey key = plan.key();
  const auto [it, is_new] = starting_.try_emplace(key, Starting{.plan = std::move(plan)});
  if (!is_new) return;  // told twice by a controller that errs: the first start speaks for it
  const auto launch = std::make_shared<Launch>();
  launch->command = it->second.plan.command;
  const auto watch = std::make_shared<PathWatch>();
  EnqueueWatched(
      timers_, threads_,
      [this, key, launch, watch]() -> SideThreads::Completion {
        watch->Touch(launch->command.program);
        const auto process = std::make_shared<absl::StatusOr<StartedProcess>>(
            LaunchProcess(launch->command, &launch->watch));
        return [this, key, process] { Finish(key, std::move(*process)); };
      },
      watch, patience_,
      [this, key, launch = std::weak_ptr(launch)](const absl::Status& stall, bool began) {
        const auto late = starting_.find(key);
        if (late == starting_.end()) return;
        if (!began) return Finish(key, stall);
        const std::shared_ptr<Launch> slow = launch.lock();
        if (slow == nullptr) return;
        slow->watch.Kill();
        late->second.gave_up_at = timers_.clock().SinceBoot();
      });
}

void RankStarts::Finish(const RankKey& key, absl::StatusOr<StartedProcess> process) {
  auto node = starting_.extract(key);
  done_(std::move(node.mapped()), std::move(process));
}

void RankStarts::Stop(const StopRequest& request, absl::Duration now,
                      const std::function<bool(const RankKey&)>& wanted) {
  for (auto& [key, starting] : starting_) {
    if (!wanted(key)) continue;
    if (!starting.stop.has_value()) starting.stopped_at = now;
    if (!starting.stop.has_value() || IsHarsher(request, *starting.stop)) starting.stop = request;
  }
}

void RankStarts::ForEach(const std::function<void(const Starting&)>& visit) const {
  for (const auto& [key, starting] : starting_) visit(starting);
}

}  // namespace muster::worker
