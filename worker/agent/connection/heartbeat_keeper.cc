#include "worker/agent/connection/heartbeat_keeper.h"

#include <utility>

#include "common/base/log.h"

namespace muster::worker {
namespace {

// A loop that is late by no more than this share of an interval is only busy.
constexpr double kLate = 1.5;

}  // namespace

HeartbeatKeeper::HeartbeatKeeper(Clock& clock, absl::Duration longest_stall)
    : clock_(clock), longest_stall_(longest_stall), thread_([this] { Run(); }) {}

HeartbeatKeeper::~HeartbeatKeeper() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void HeartbeatKeeper::OnBeat(std::shared_ptr<ControlConnection> connection,
                             v1::WorkerMessage heartbeat, absl::Duration interval) {
  absl::Duration stalled_for;
  {
    MutexLock lock(mutex_);
    const absl::Duration now = clock_.SinceBoot();
    if (std::exchange(stalled_, false)) stalled_for = now - beaten_;
    connection_.swap(connection);
    heartbeat_.Swap(&heartbeat);
    interval_ = interval;
    beaten_ = now;
    changed_.NotifyAll();
  }
  if (stalled_for == absl::ZeroDuration()) return;
  Log(LogLevel::kWarning, "loop_goes_on", {{"stalled_ms", absl::ToInt64Milliseconds(stalled_for)}});
}

void HeartbeatKeeper::Rest() {
  std::shared_ptr<ControlConnection> dropped;
  MutexLock lock(mutex_);
  dropped.swap(connection_);
  changed_.NotifyAll();
}

void HeartbeatKeeper::Run() {
  while (true) {
    std::shared_ptr<ControlConnection> connection;
    v1::WorkerMessage heartbeat;
    bool is_news = false;
    {
      MutexLock lock(mutex_);
      const absl::Duration silence = clock_.SinceBoot() - beaten_;
      if (stopping_) return;
      const bool gave_up = silence > longest_stall_;
      if (connection_ == nullptr || gave_up) {
        changed_.Wait(mutex_);
        continue;
      }
      const absl::Duration due = stalled_ ? interval_ : interval_ * kLate - silence;
      if (due > absl::ZeroDuration() && changed_.WaitFor(mutex_, due)) continue;
      // It beat meanwhile, or rests.
      if (stopping_ || connection_ == nullptr || clock_.SinceBoot() - beaten_ < interval_ * kLate) {
        continue;
      }
      is_news = !std::exchange(stalled_, true);
      connection = connection_;
      heartbeat = heartbeat_;
    }
    if (is_news) Log(LogLevel::kWarning, "loop_stalled", {});
    connection->SendFromAnyThread(std::move(heartbeat));
  }
}

}  // namespace muster::worker
