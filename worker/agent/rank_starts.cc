#include "worker/agent/rank_starts.h"

#include <utility>

namespace muster::worker {

void RankStarts::Begin(RankPlan plan) {
  const RankKey key = plan.key();
  const auto [it, is_new] = starting_.try_emplace(key, Starting{.plan = std::move(plan)});
  if (!is_new) return;  // told twice by a controller that errs: the first start speaks for it
  const auto launch = std::make_shared<Launch>();
  launch->command = it->second.plan.command;
  threads_.Enqueue([this, key, launch]() -> SideThreads::Completion {
    const auto process = std::make_shared<absl::StatusOr<StartedProcess>>(
        LaunchProcess(launch->command, &launch->watch));
    return [this, key, process] { Finish(key, std::move(*process)); };
  });
  timers_.After(patience_, [this, key, launch = std::weak_ptr(launch)] {
    const std::shared_ptr<Launch> slow = launch.lock();
    const auto late = starting_.find(key);
    if (slow == nullptr || late == starting_.end()) return;
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
