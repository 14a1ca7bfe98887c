#include "controller/api/streams/stream_pump.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/api/calls/service_call.h"

namespace muster::controller {

StreamPump::StreamPump(Clock& clock, size_t max_pumped)
    : clock_(clock),
      max_pumped_(max_pumped),
      shares_(std::max<size_t>(1, max_pumped / 4)),
      thread_([this] { Run(); }) {}

StreamPump::~StreamPump() { Stop(); }

void StreamPump::Add(std::shared_ptr<Pumped> pumped, const std::string& caller) {
  const absl::Status refused = Admit({pumped, nullptr}, caller);
  if (!refused.ok()) {
    pumped->Abort(refused);
  } else {
    wake_.NotifyOne();
  }
}

absl::Status StreamPump::Admit(Entry entry, const std::string& caller) {
  MutexLock lock(mutex_);
  if (stopping_) return Stopping();
  if (added_.size() + turning_ >= max_pumped_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(max_pumped_, " watches and waits are open already: end some, or ask again"));
  }
  entry.place = shares_.Take(caller);
  if (entry.place == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat(shares_.share(), " watches and waits of yours are open already, of ",
                     max_pumped_, " in all: end some of them"));
  }
  added_.push_back(std::move(entry));
  return absl::OkStatus();
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
  std::vector<Entry> all;
  absl::Duration due_at;
  while (true) {
    std::vector<Entry> fresh;
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
      for (Entry& entry : all) entry.pumped->Abort(Stopping());
      for (Entry& entry : fresh) entry.pumped->Abort(Stopping());
      return;
    }
    // A new one is turned at once, the others only when their interval has passed.
    if (clock_.SinceBoot() >= due_at) {
      due_at = clock_.SinceBoot() + kInterval;
      std::erase_if(all, [](const Entry& entry) { return !entry.pumped->Turn(); });
    }
    for (Entry& entry : fresh) {
      if (entry.pumped->Turn()) all.push_back(std::move(entry));
    }
  }
}

}  // namespace muster::controller
