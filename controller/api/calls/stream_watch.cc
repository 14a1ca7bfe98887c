#include "controller/api/calls/stream_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace muster::controller {
namespace {

constexpr absl::Duration kLongestInterval = absl::Seconds(1);

absl::Duration IntervalOf(const StreamPatience& patience) {
  const absl::Duration shortest =
      std::min({patience.unread, patience.hello, patience.silent, patience.idle});
  return std::min(kLongestInterval, shortest / 2);
}

}  // namespace

StreamWatch::StreamWatch(const StreamPatience& patience)
    : interval_(IntervalOf(patience)), thread_([this] { Run(); }) {}

StreamWatch::~StreamWatch() { Stop(); }

void StreamWatch::Add(std::weak_ptr<Watched> stream) {
  MutexLock lock(mutex_);
  added_.push_back(std::move(stream));
  // Without streams the thread sleeps.
  if (added_.size() == 1) wake_.NotifyOne();
}

void StreamWatch::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyOne();
  if (thread_.joinable()) thread_.join();
}

void StreamWatch::Run() {
  std::vector<std::weak_ptr<Watched>> all;
  while (true) {
    {
      MutexLock lock(mutex_);
      while (all.empty() && added_.empty() && !stopping_) wake_.Wait(mutex_);
      if (!stopping_) wake_.WaitFor(mutex_, interval_);
      if (stopping_) return;
      std::move(added_.begin(), added_.end(), std::back_inserter(all));
      added_.clear();
    }
    std::erase_if(all, [](const std::weak_ptr<Watched>& weak) {
      const std::shared_ptr<Watched> stream = weak.lock();
      if (stream != nullptr) stream->CheckDeadline();
      return stream == nullptr;
    });
  }
}

}  // namespace muster::controller
