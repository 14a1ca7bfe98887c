// How much of something bounded each caller has, so that none of them shuts out the others.
// Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "common/base/mutex.h"

namespace muster::controller {

class CallerShares {
 public:
  // Given back when the last copy of it goes, at any time.
  using Place = std::shared_ptr<const void>;

  // `share`: what each caller may have at a time.
  explicit CallerShares(size_t share) : share_(share), held_(std::make_shared<Held>()) {}

  size_t share() const { return share_; }
  // One more for `caller` (Caller::Share). Null: they have their share.
  Place Take(const std::string& caller) {
    MutexLock lock(held_->mutex);
    size_t& count = held_->counts[caller];
    if (count >= share_) return nullptr;
    ++count;
    return Place(held_.get(), [held = held_, caller](const void*) { GiveBack(*held, caller); });
  }

 private:
  struct Held {
    Mutex mutex;
    std::map<std::string, size_t> counts MUSTER_GUARDED_BY(mutex);  // by caller; no zeros
  };

  static void GiveBack(Held& held, const std::string& caller) {
    MutexLock lock(held.mutex);
    const auto count = held.counts.find(caller);
    if (--count->second == 0) held.counts.erase(count);
  }

  const size_t share_;
  const std::shared_ptr<Held> held_;
};

}  // namespace muster::controller
