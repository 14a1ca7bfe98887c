#include "controller/api/stream_pump.h"

#include <utility>

namespace muster::controller {

StreamPump::StreamPump(Clock& clock) : clock_(clock), thread_([this] { Run(); }) {}

StreamPump::~StreamPump() { Stop(); }

void StreamPump::Add(std::shared_ptr<Pumped> pumped) {
  bool stopping = false;
  {
    MutexLock lock(mutex_);
    stopping = stopping_;
    if (!stopping) added_.push_back(pumped);
  }
  if (stopping) {
    pumped->Abort();
  } else {
    wake_.NotifyOne();
  }
}

void StreamPump::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyOne();
  if (thread_.joinable()) thread_.join();
}

void StreamPump::Run() {
  std::vector<std::shared_ptr<Pumped>> all;
  absl::Duration due_at;
  while (true) {
    std::vector<std::shared_ptr<Pumped>> fresh;
    bool stopping = false;
    {
      MutexLock lock(mutex_);
      while (added_.empty() && !stopping_) {
        const absl::Duration left = due_at - clock_.SinceBoot();
        if (all.empty()) {
          wake_.Wait(mutex_);
        } else if (left > absl::ZeroDuration()) {
          wake_.WaitFor(mutex_, left);
        } else {
          break;
        }
      }
      fresh.swap(added_);
      stopping = stopping_;
    }
    if (stopping) {
      for (auto& pumped : all) pumped->Abort();
      for (auto& pumped : fresh) pumped->Abort();
      return;
    }
    // A new one is turned at once, the others only when their interval has passed.
    if (clock_.SinceBoot() >= due_at) {
      due_at = clock_.SinceBoot() + kInterval;
      std::erase_if(all, [](const auto& pumped) { return !pumped->Turn(); });
    }
    for (auto& pumped : fresh) {
      if (pumped->Turn()) all.push_back(std::move(pumped));
    }
  }
}

}  // namespace muster::controller
