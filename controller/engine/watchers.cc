#include "controller/engine/watchers.h"

#include <utility>

namespace muster::controller {

void Watchers::Entry::Run(const std::shared_ptr<const Snapshot>& snapshot) {
  {
    MutexLock lock(mutex);
    if (dropped) return;
    running = true;
  }
  watcher(snapshot);
  MutexLock lock(mutex);
  running = false;
  idle.NotifyAll();
}

void Watchers::Entry::Drop() {
  MutexLock lock(mutex);
  dropped = true;
  while (running) idle.Wait(mutex);
}

std::shared_ptr<void> Watchers::Add(Watcher watcher) {
  auto entry = std::make_shared<Entry>(std::move(watcher));
  {
    MutexLock lock(mutex_);
    entries_.push_back(entry);
  }
  Entry* raw = entry.get();
  return std::shared_ptr<void>(raw, [entry = std::move(entry)](void*) { entry->Drop(); });
}

void Watchers::Notify(const std::shared_ptr<const Snapshot>& snapshot) {
  std::vector<std::shared_ptr<Entry>> live;
  {
    MutexLock lock(mutex_);
    std::erase_if(entries_, [](const std::weak_ptr<Entry>& entry) { return entry.expired(); });
    for (const auto& weak : entries_) {
      if (auto entry = weak.lock()) live.push_back(std::move(entry));
    }
  }
  for (const auto& entry : live) entry->Run(snapshot);
}

}  // namespace muster::controller
