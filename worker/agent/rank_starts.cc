#include "worker/agent/rank_starts.h"

#include <utility>

namespace muster::worker {

void RankStarts::Begin(RankPlan plan) {
  const RankKey key = plan.key();
  const auto [it, is_new] = starting_.try_emplace(key, Starting{.plan = std::move(plan)});
  if (!is_new) return;  // told twice by a controller that errs: the first start speaks for it
  thread_.Enqueue([this, key,
                   &command = it->second.plan.command]() -> BackgroundThread::Completion {
    const auto process = std::make_shared<absl::StatusOr<StartedProcess>>(LaunchProcess(command));
    return [this, key, process] { Finish(key, std::move(*process)); };
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
