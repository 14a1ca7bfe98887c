// The agent's conversation with the controller over the Control stream: connects and comes back
// with growing pauses, says who it is, keeps the lease alive, and carries events until they are
// acknowledged.
//
// A controller whose term is lower than one that was seen of it before is refused: it is a relic.
// Another controller is followed by the next life of the agent, not by one that has served the
// former: what it has taken, its numbers and its ranks mean nothing to the other. While another
// agent holds the worker's name it says hello again and again, and waits. What is written here
// is only how to talk; what a message means is the handler's. Lives on the event loop, and in
// muster_sim on virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/metrics/metric_families.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/base/backoff.h"
#include "worker/agent/base/timers.h"
#include "worker/agent/connection/control_connection.h"
#include "worker/agent/connection/event_outbox.h"
#include "worker/agent/connection/heartbeat_keeper.h"
#include "worker/agent/connection/lease.h"
#include "worker/agent/identity/known_controller.h"

namespace muster::worker {

class SessionHandler {
 public:
  virtual ~SessionHandler() = default;
  // What changes in a Hello: ranks, and whether it takes work.
  virtual void FillHello(v1::Hello& hello) = 0;
  virtual std::vector<v1::RankStatus> RankStatuses() = 0;
  // What of the machine is in use; nothing unless it is known.
  virtual std::optional<v1::WorkerUse> Use() { return std::nullopt; }
  // Checkpoint roots; nothing when it is as said before in this session.
  virtual std::optional<v1::RootReport> Roots() { return std::nullopt; }
  // Of jobs that it was asked to look at; nothing when it is as said before in this session.
  virtual std::optional<v1::DataReport> Data() { return std::nullopt; }
  virtual void OnSessionUp(const v1::Welcome& welcome) = 0;
  virtual void OnSessionDown() = 0;
  // StartRanks, StopRanks, StoreReply, CheckpointAck, VerifyCheckpoint, DeleteCheckpoint,
  // WatchRoots, CheckData.
  virtual void OnControllerMessage(const v1::ControllerMessage& message) = 0;
  virtual void OnLeaseRenewed() = 0;
  // The controller will never take this agent: wrong protocol, wrong token, or a newer agent holds
  // the name; or it is another one than this life of the agent has served. No further try is made.
  virtual void OnRefused(absl::Status status) = 0;
};

struct SessionOptions {
  v1::Hello hello;                    // all that does not change
  bool near = false;                  // the controller is on this machine: come back quickly
  uint64_t seed = 0;                  // of the jitter
  KnownController controller;         // as an earlier agent of the data folder has seen it
  HeartbeatKeeper* keeper = nullptr;  // beats while the loop stands still; outlives the session
  // Of an error that ended the connection, in words that say what to do. Null: it is told as it is.
  std::function<absl::Status(const absl::Status&)> explain = nullptr;
};

class Session {
 public:
  // All outlive the session.
  Session(Timers& timers, ControlConnector connect, MetricFamilies& families,
          SessionHandler& handler, SessionOptions options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Start();
  // Ends the stream and makes no further try.
  void Stop();

  bool up() const { return up_; }
  uint64_t term() const { return controller_.term; }
  const KnownController& controller() const { return controller_; }
  // Since the controller was last known to listen; zero at first.
  absl::Duration ControllerAway() const;
  bool LeaseAllowsPublish() const { return lease_.AllowsPublish(timers_.clock().SinceBoot()); }
  bool LeaseHolds() const { return lease_.Holds(timers_.clock().SinceBoot()); }

  // Events beyond the last acknowledged one that are under way at a time: a stream that finds more
  // in its queue is given up.
  static constexpr uint64_t kMaxUnanswered = 1024;

  // News that nobody waits for are held back this long at most, so that they travel together and
  // share a commit.
  static constexpr absl::Duration kPatience = absl::Milliseconds(5);

  // Kept until acknowledged, repeated in each new session: what it says of ranks, checkpoints and
  // of this machine.
  void SendEvent(v1::WorkerMessage event);
  // Dropped when the session is down.
  void SendMessage(v1::WorkerMessage message);
  void HeartbeatNow();
  bool EventsAcknowledged() const { return outbox_.empty(); }

 private:
  void Connect();
  void Reconnect(const absl::Status& why);
  void OnMessage(const v1::ControllerMessage& message);
  void OnWelcome(const v1::Welcome& welcome);
  // Whether its terms are not those that were seen.
  bool IsAnother(const v1::Welcome& welcome) const;
  void GiveUp(absl::Status why);
  void OnEnd(const absl::Status& status);
  void OnWelcomeTimeout();
  void SetUp(bool up);
  void Say(v1::WorkerMessage message);
  void SayAll();
  // The one door to the stream, for what the keeper repeats, too.
  void Send(v1::WorkerMessage message);
  // The events that are due.
  void SayEvents();

  Timers& timers_;
  const ControlConnector connect_;
  MetricFamilies& families_;
  SessionHandler& handler_;
  const SessionOptions options_;
  std::shared_ptr<ControlConnection> stream_;
  EventOutbox outbox_;
  std::vector<v1::WorkerMessage> held_back_;  // while up, in their order
  Lease lease_;
  Backoff backoff_;
  Timers::TimerId timer_ = 0;  // to connect again, or to give up waiting for Welcome
  Timers::TimerId heartbeat_timer_ = 0;
  Timers::TimerId say_timer_ = 0;
  absl::Duration heartbeat_interval_;
  absl::Duration lease_duration_;
  absl::Duration last_contact_;  // SinceBoot
  uint64_t heartbeat_seq_ = 0;
  uint64_t said_up_to_ = 0;            // events, in this session
  KnownController controller_;         // the last that was followed
  int64_t controller_started_ns_ = 0;  // as its Welcome said; 0: there was none
  bool up_ = false;
  bool ever_up_ = false;
  bool stopped_ = false;
};

}  // namespace muster::worker
