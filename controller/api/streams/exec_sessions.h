// Programs that people run beside ranks (exec_service.proto): the person's call and the agent's,
// and what passes between them. Each side reads only while the other has room for what it says, so
// that who does not read stops the program, not us.
//
// A session begins with the person's first message: the job is found, the run is recorded, the
// agent is told. The agent then opens its call and names the session. When either call is over, so
// is the other.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/rpc/peer_certificate.h"
#include "controller/api/calls/service_call.h"
#include "controller/api/streams/two_way_stream.h"
#include "controller/engine/engine.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::controller {

class ClientExecStream;
class AgentExecStream;

// Those that are open. Thread-safe; outlives the calls.
class ExecSessions {
 public:
  static constexpr size_t kMaxPerWorker = 16;

  // RESOURCE_EXHAUSTED: too many on the worker.
  absl::Status Open(const std::string& session, const std::string& worker,
                    std::weak_ptr<ClientExecStream> person) MUSTER_EXCLUDES(mutex_);
  void Close(const std::string& session) MUSTER_EXCLUDES(mutex_);
  // NOT_FOUND: there is none (any more). PERMISSION_DENIED: it is another worker's.
  absl::StatusOr<std::shared_ptr<ClientExecStream>> Find(const std::string& session,
                                                         const PeerNames& sender)
      MUSTER_EXCLUDES(mutex_);

 private:
  struct Session {
    std::string worker;
    std::weak_ptr<ClientExecStream> person;
  };
  Mutex mutex_;
  std::map<std::string, Session> sessions_ MUSTER_GUARDED_BY(mutex_);
};

// One of the two calls, as the other one sees it. Thread-safe.
class ExecPeer {
 public:
  virtual ~ExecPeer() = default;
  virtual bool HasRoom() const = 0;
  // The other side may have room again.
  virtual void OnPeerReady() = 0;
  // The other side's call is over.
  virtual void OnPeerClosed(const absl::Status& why) = 0;
};

// What both calls do: what the other one says is queued, and written in its order.
template <typename In, typename Out>
class ExecStream : public TwoWayStream<In, Out>, public ExecPeer {
 public:
  using TwoWayStream<In, Out>::TwoWayStream;

  void Enqueue(Out message) {
    MutexLock lock(this->mutex_);
    if (this->ended_) return;
    waiting_.push_back(std::move(message));
    waiting_count_ = waiting_.size();
    this->GoOnLocked();
  }
  bool HasRoom() const override { return waiting_count_ < kMaxWaiting; }
  void OnPeerReady() override {
    MutexLock lock(this->mutex_);
    this->GoOnLocked();
  }
  void OnPeerClosed(const absl::Status& why) override { this->Close(why); }

 protected:
  static constexpr size_t kMaxWaiting = 8;  // messages

  // From now on; once.
  void SetPeer(std::weak_ptr<ExecPeer> peer) {
    MutexLock lock(this->mutex_);
    peer_ = std::move(peer);
    has_peer_ = true;
    this->GoOnLocked();
  }
  std::shared_ptr<ExecPeer> Peer() {
    MutexLock lock(this->mutex_);
    return peer_.lock();
  }
  bool MayReadLocked() const override MUSTER_REQUIRES(this->mutex_) {
    if (!has_peer_) return !started_;
    const std::shared_ptr<ExecPeer> peer = peer_.lock();
    return peer == nullptr || peer->HasRoom();
  }
  const Out* NextLocked() override MUSTER_REQUIRES(this->mutex_) {
    return waiting_.empty() ? nullptr : &waiting_.front();
  }
  void WrittenLocked() override MUSTER_REQUIRES(this->mutex_) {
    if (!waiting_.empty()) waiting_.pop_front();
    waiting_count_ = waiting_.size();
  }
  void OnWritten() override {
    if (const std::shared_ptr<ExecPeer> peer = Peer()) peer->OnPeerReady();
  }
  void DropWaitingLocked() override MUSTER_REQUIRES(this->mutex_) {
    // The first one may be on its way.
    while (waiting_.size() > 1) waiting_.pop_back();
    waiting_count_ = waiting_.size();
  }
  bool OwesLocked() const override MUSTER_REQUIRES(this->mutex_) { return !waiting_.empty(); }
  // Who has nothing to say may look on; pings find those that are gone.
  absl::Duration PatienceLocked() const override MUSTER_REQUIRES(this->mutex_) {
    return started_ ? absl::InfiniteDuration() : this->gate_.patience().hello;
  }
  // Who does not read stops the program.
  absl::Duration UnreadPatience() const override { return absl::InfiniteDuration(); }

  bool started_ MUSTER_GUARDED_BY(this->mutex_) = false;  // the first message has come

 private:
  std::deque<Out> waiting_ MUSTER_GUARDED_BY(this->mutex_);
  std::atomic<size_t> waiting_count_ = 0;
  bool has_peer_ MUSTER_GUARDED_BY(this->mutex_) = false;
  std::weak_ptr<ExecPeer> peer_ MUSTER_GUARDED_BY(this->mutex_);
};

class ClientExecStream final : public ExecStream<v1::ExecRequest, v1::ExecOutput>,
                               public std::enable_shared_from_this<ClientExecStream> {
 public:
  // From the message to the agent until it opens its call.
  static constexpr absl::Duration kAnswerPatience = absl::Seconds(20);

  // All references outlive the call. `caller`: as CallGate::Enter has let it in.
  ClientExecStream(CallGate& gate, Engine& engine, ExecSessions& sessions, Caller caller)
      : ExecStream(gate, "Exec"),
        engine_(engine),
        sessions_(sessions),
        caller_(std::move(caller)) {}

  // The agent's call; StartForwarding follows. From now on the agent is told when this call is
  // over. FAILED_PRECONDITION: there is one already. NOT_FOUND: this call is over.
  absl::Status Attach(const std::shared_ptr<AgentExecStream>& agent);
  // What the person says goes to the agent from now on. Not before the agent is told that its call
  // is accepted, which is the first thing that it wants to hear.
  void StartForwarding(const std::shared_ptr<AgentExecStream>& agent);
  // What the program wrote, or how it ended.
  void OnOutput(v1::ExecOutput output);
  // The agent's call is over. An end that was not told is an error.
  void OnPeerClosed(const absl::Status& why) override;

 private:
  // Whom the program is to run beside.
  struct Place {
    std::string worker;
    std::string incarnation;
    std::string project;
    std::string owner;
    std::string object;  // for the audit log
    ExecAssignment assignment;
  };

  absl::Status Take(v1::ExecRequest& message) override;
  absl::Status TakeStart(const v1::ExecStart& start);
  absl::StatusOr<Place> FindPlace(const v1::ExecStart& start);
  void Ask(const Place& place);
  absl::Status StillAllowed() const override;
  void OnOver() override;

  Engine& engine_;
  ExecSessions& sessions_;
  const Caller caller_;
  std::string session_;  // set once, by Take

  mutable Mutex state_;
  std::string project_ MUSTER_GUARDED_BY(state_);
  std::string owner_ MUSTER_GUARDED_BY(state_);  // of the job
  std::string worker_ MUSTER_GUARDED_BY(state_);
  absl::Duration asked_at_ MUSTER_GUARDED_BY(state_) = absl::InfiniteDuration();  // since boot
  bool attached_ MUSTER_GUARDED_BY(state_) = false;
  bool over_ MUSTER_GUARDED_BY(state_) = false;
  std::weak_ptr<AgentExecStream> agent_ MUSTER_GUARDED_BY(state_);  // its call
  bool told_end_ MUSTER_GUARDED_BY(state_) = false;
};

class AgentExecStream final : public ExecStream<v1::ExecOutput, v1::ExecInput>,
                              public std::enable_shared_from_this<AgentExecStream> {
 public:
  // `sender` as in ControlStream.
  AgentExecStream(CallGate& gate, ExecSessions& sessions, PeerNames sender)
      : ExecStream(gate, "ExecOfWorker"), sessions_(sessions), sender_(std::move(sender)) {}

 private:
  absl::Status Take(v1::ExecOutput& message) override;
  void OnOver() override;

  ExecSessions& sessions_;
  const PeerNames sender_;
  std::shared_ptr<ClientExecStream> person_;  // by Take, and at the end
};

}  // namespace muster::controller
