// Beats in the loop's stead while the loop stands still, so that a stall of it (a disk that hangs,
// a machine that swaps) costs no lease: on a thread of its own it repeats the session's last
// heartbeat, by its old number, as long as the loop owes the next one.
//
// The controller hears that the machine lives, and what its ranks were when the loop last looked.
// The agent's own lease does not grow by that: it counts from the send of what the loop sent. After
// kLongestStall it stops, for an agent that never answers should be given up.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/connection/control_connection.h"

namespace muster::worker {

class HeartbeatKeeper {
 public:
  static constexpr absl::Duration kLongestStall = absl::Minutes(10);

  // `clock` outlives it.
  explicit HeartbeatKeeper(Clock& clock, absl::Duration longest_stall = kLongestStall);
  ~HeartbeatKeeper();
  HeartbeatKeeper(const HeartbeatKeeper&) = delete;
  HeartbeatKeeper& operator=(const HeartbeatKeeper&) = delete;

  // The loop has sent this, and sends the next within `interval`.
  void OnBeat(std::shared_ptr<ControlConnection> connection, v1::WorkerMessage heartbeat,
              absl::Duration interval) MUSTER_EXCLUDES(mutex_);
  // The session is down: nothing is sent until the next OnBeat.
  void Rest() MUSTER_EXCLUDES(mutex_);

 private:
  void Run() MUSTER_EXCLUDES(mutex_);

  Clock& clock_;
  const absl::Duration longest_stall_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::shared_ptr<ControlConnection> connection_ MUSTER_GUARDED_BY(mutex_);  // null: it rests
  v1::WorkerMessage heartbeat_ MUSTER_GUARDED_BY(mutex_);
  absl::Duration interval_ MUSTER_GUARDED_BY(mutex_);
  absl::Duration beaten_ MUSTER_GUARDED_BY(mutex_);  // since boot: by the loop
  bool stalled_ MUSTER_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace muster::worker
