// The open streams of one kind that people's calls have, so that a service's Stop ends them:
// bounded in all and for each caller. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "controller/api/calls/caller_shares.h"
#include "controller/api/calls/service_call.h"

namespace muster::controller {

template <typename Stream>
class KeptStreams {
 public:
  struct Bounds {
    size_t all = 0;
    size_t of_caller = 0;
    std::string all_taken;        // what is said then, with the way out
    std::string of_caller_taken;  // likewise
  };

  explicit KeptStreams(Bounds bounds) : bounds_(std::move(bounds)), shares_(bounds_.of_caller) {}

  // Until the stream is gone. RESOURCE_EXHAUSTED: there are too many, in all or of `caller`
  // (Caller::Share). UNAVAILABLE: no more are kept.
  absl::Status Keep(const std::shared_ptr<Stream>& stream, const std::string& caller)
      MUSTER_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (stopping_) return Stopping();
    std::erase_if(kept_, [](const Kept& kept) { return kept.stream.expired(); });
    if (kept_.size() >= bounds_.all) return absl::ResourceExhaustedError(bounds_.all_taken);
    CallerShares::Place place = shares_.Take(caller);
    if (place == nullptr) return absl::ResourceExhaustedError(bounds_.of_caller_taken);
    kept_.push_back({stream, std::move(place)});
    return absl::OkStatus();
  }

  // Ends them all with UNAVAILABLE; keeps no more.
  void Stop() MUSTER_EXCLUDES(mutex_) {
    std::vector<Kept> kept;
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      kept.swap(kept_);
    }
    for (const Kept& one : kept) {
      if (const auto stream = one.stream.lock()) stream->Close(Stopping());
    }
  }

 private:
  struct Kept {
    std::weak_ptr<Stream> stream;
    CallerShares::Place place;
  };

  const Bounds bounds_;
  CallerShares shares_;
  Mutex mutex_;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::vector<Kept> kept_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
