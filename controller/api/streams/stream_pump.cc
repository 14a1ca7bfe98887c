#include "controller/api/streams/stream_pump.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/api/calls/service_call.h"

namespace muster::controller {

StreamPump::StreamPump(Clock& clock, size_t max_pumped)
    : clock_(clock), max_pumped_(max_pumped), thread_([this] { Run(); }) {}

StreamPump::~StreamPump() { Stop(); }

void StreamPump::Add(std::shared_ptr<Pumped> pumped) {
  absl::Status refused;
  {
    MutexLock lock(mutex_);
    if (stopping_) {
      refused = Stopping();
    } else if (added_.size() + turning_ >= max_pumped_) {
      refused = absl::ResourceExhaustedError(
          absl::StrCat(max_pumped_, " watches and waits are open already: end some, or ask again"));
    } else {
      added_.push_back(pumped);
    }
  }
  if (!refused.ok()) {
    pumped->Abort(refused);
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
      turning_ = all.size();
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
      turning_ += fresh.size();
      stopping = stopping_;
    }
    if (stopping) {
      for (auto& pumped : all) pumped->Abort(Stopping());
      for (auto& pumped : fresh) pumped->Abort(Stopping());
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
