// Brings committed assignments to the agents: each is sent once its agent is connected, and again
// until it is acknowledged. Reads what to send from the snapshot's outbox, so that a restart is no
// special case.
//
// Links come and go on the applier's thread, RunOnce runs on one thread. Nothing is sent with the
// lock held.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "controller/engine/worker_link.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

class Dispatcher {
 public:
  // An assignment that is not acknowledged is repeated after this long on the same stream; on a new
  // one at once.
  static constexpr absl::Duration kRepeatAfter = absl::Seconds(30);

  explicit Dispatcher(Clock& clock) : clock_(clock) {}

  struct Stream {
    std::string worker;
    std::string incarnation;
    uint64_t stream = 0;
    std::shared_ptr<WorkerLink> link;
  };
  // The worker's stream from now on; a former one is closed.
  void Attach(Stream stream);
  void Detach(const std::string& worker, uint64_t stream);
  // Ends the stream of that incarnation, if it has one.
  void Close(const std::string& worker, const std::string& incarnation, const absl::Status& status);

  // Sends it once on that stream of the worker's, if it still is its stream.
  void SendUnstored(const std::string& worker, uint64_t stream, const Assignment& assignment);

  // Sends it once to that incarnation of the worker's agent. False: it is not connected.
  bool SendOnce(const std::string& worker, const std::string& incarnation,
                const Assignment& assignment);

  // Sends what is due; returns how long until the next repeat, at most.
  absl::Duration RunOnce(const Snapshot& snapshot);

  // Assignments sent so far, repeats included. Thread-safe.
  uint64_t sent() const { return sent_; }

 private:
  struct Connection {
    Stream stream;
    std::map<uint64_t, absl::Duration> sent_at;  // since boot, by outbox sequence
  };

  Clock& clock_;
  std::atomic<uint64_t> sent_ = 0;
  Mutex mutex_;
  std::map<std::string, Connection> connections_ MUSTER_GUARDED_BY(mutex_);  // by worker
};

}  // namespace muster::controller
