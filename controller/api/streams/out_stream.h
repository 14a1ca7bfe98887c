// A server-streaming call: a bounded-by-its-producer queue of messages, written one after another,
// and one status at the end. A client that does not read is given up after a time. It lives until
// gRPC and everybody who holds it are done with it. All methods are thread-safe.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/rpc/status_map.h"
#include "controller/api/calls/service_call.h"
#include "controller/api/calls/stream_watch.h"
#include "controller/api/streams/stream_pump.h"

namespace muster::controller {

template <typename Message>
class OutStream : public grpc::ServerWriteReactor<Message>,
                  public Pumped,
                  public StreamWatch::Watched {
 public:
  // `method` must be a literal.
  OutStream(CallGate& gate, const char* method) : gate_(gate), method_(method) {
    gate_.StreamOpened(method_);
  }

  // Asked about once a second; not OK ends the call with that. Before Handover.
  void EndUnless(std::function<absl::Status()> allowed) { allowed_ = std::move(allowed); }

  // Call once, right after the making: gRPC holds it by a plain pointer until OnDone, and the
  // context lives as long. `watch` looks whether the client reads.
  static grpc::ServerWriteReactor<Message>* Handover(std::shared_ptr<OutStream> stream,
                                                     grpc::CallbackServerContext& context,
                                                     StreamWatch& watch) {
    OutStream* raw = stream.get();
    raw->context_ = &context;
    raw->self_ = std::move(stream);
    watch.Add(raw->self_);
    return raw;
  }

  // Ends the call. OK: after what is queued; else at once. Only the first end counts.
  void End(const absl::Status& status) MUSTER_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (ended_) return;
    ended_ = true;
    status_ = status;
    if (!status.ok()) DropWaitingLocked();
    FinishIfIdleLocked();
  }
  void Abort(const absl::Status& why) final { End(why); }
  // Gives up a client that has not taken what is on its way. A status would wait behind that.
  void CheckDeadline() final {
    const absl::Status allowed = allowed_ == nullptr ? absl::OkStatus() : allowed_();
    {
      MutexLock lock(mutex_);
      if (!allowed.ok() && !ended_) {
        ended_ = true;
        status_ = allowed;
        DropWaitingLocked();
        FinishIfIdleLocked();
        return;
      }
      const bool unread = gate_.Now() - write_began_ > gate_.patience().unread;
      if (queue_.empty() || (allowed.ok() && !unread)) return;
      ended_ = true;
      if (status_.ok()) status_ = absl::DeadlineExceededError("the client does not read");
      DropWaitingLocked();
      cancelling_ = true;
    }
    context_->TryCancel();  // nothing finishes the call meanwhile, so the context is there
    MutexLock lock(mutex_);
    cancelling_ = false;
    FinishIfIdleLocked();
  }

 protected:
  void Send(Message message) MUSTER_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (ended_) return;
    queue_.push_back(std::move(message));
    if (queue_.size() == 1) WriteLocked();
  }
  bool ended() const MUSTER_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return ended_;
  }
  // All that was sent has left.
  bool idle() const MUSTER_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return queue_.empty();
  }
  // Runs, without a lock, when the last queued message has left and the stream has not ended.
  virtual void OnDrained() {}

 private:
  void OnWriteDone(bool ok) final {
    {
      MutexLock lock(mutex_);
      queue_.pop_front();
      if (!ok && !ended_) {
        ended_ = true;
        status_ = absl::CancelledError("the client went away");
      }
      if (!ok) queue_.clear();
      if (!queue_.empty()) {
        WriteLocked();
        return;
      }
      FinishIfIdleLocked();
      if (ended_) return;
    }
    OnDrained();
  }
  void OnCancel() final { End(absl::CancelledError("the client went away")); }
  void OnDone() final {
    gate_.StreamClosed(method_, status_code());
    self_.reset();  // the last line: it may delete this
  }

  absl::StatusCode status_code() const {
    MutexLock lock(mutex_);
    return status_.code();
  }
  void WriteLocked() MUSTER_REQUIRES(mutex_) {
    write_began_ = gate_.Now();
    this->StartWrite(&queue_.front());
  }
  // The first message may be on its way: it stays until its OnWriteDone.
  void DropWaitingLocked() MUSTER_REQUIRES(mutex_) {
    if (!queue_.empty()) queue_.erase(queue_.begin() + 1, queue_.end());
  }
  void FinishIfIdleLocked() MUSTER_REQUIRES(mutex_) {
    if (!ended_ || finished_ || cancelling_ || !queue_.empty()) return;
    finished_ = true;
    this->Finish(ToGrpc(status_));
  }

  CallGate& gate_;
  const char* const method_;
  std::function<absl::Status()> allowed_;  // null: it is
  std::shared_ptr<OutStream> self_;
  grpc::CallbackServerContext* context_ = nullptr;  // set once
  mutable Mutex mutex_;
  std::deque<Message> queue_ MUSTER_GUARDED_BY(mutex_);
  bool ended_ MUSTER_GUARDED_BY(mutex_) = false;
  bool finished_ MUSTER_GUARDED_BY(mutex_) = false;
  bool cancelling_ MUSTER_GUARDED_BY(mutex_) = false;     // by CheckDeadline
  absl::Duration write_began_ MUSTER_GUARDED_BY(mutex_);  // since boot; of the first in the queue
  absl::Status status_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
