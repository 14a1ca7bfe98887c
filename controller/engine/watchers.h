// Who wants to know of each new version. Thread-safe; no lock is held while a watcher runs.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

class Watchers {
 public:
  using Watcher = std::function<void(const std::shared_ptr<const Snapshot>&)>;

  // The watcher runs until the handle is dropped; dropping waits for a run in progress. The handle
  // may outlive this.
  std::shared_ptr<void> Add(Watcher watcher);
  void Notify(const std::shared_ptr<const Snapshot>& snapshot);

 private:
  struct Entry {
    explicit Entry(Watcher w) : watcher(std::move(w)) {}
    void Run(const std::shared_ptr<const Snapshot>& snapshot);
    void Drop();

    const Watcher watcher;
    Mutex mutex;
    CondVar idle;
    bool running MUSTER_GUARDED_BY(mutex) = false;
    bool dropped MUSTER_GUARDED_BY(mutex) = false;
  };

  Mutex mutex_;
  std::vector<std::weak_ptr<Entry>> entries_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
