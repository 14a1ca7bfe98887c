// A call with messages both ways, and what all of them have in common: a message is read when the
// one before was taken and not too many wait for their answers; one is written at a time; the first
// error is the status at the end. A peer that for too long is silent, or does not read, is given
// up. It lives until gRPC and everybody who holds it are done with it.
//
// Public methods are thread-safe. Those that end in Locked run under mutex_, on any thread.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/units.h"
#include "common/rpc/status_map.h"
#include "controller/api/calls/service_call.h"
#include "controller/api/calls/stream_watch.h"

namespace muster::controller {

template <typename In, typename Out>
class TwoWayStream : public grpc::ServerBidiReactor<In, Out>, public StreamWatch::Watched {
 public:
  // `method` must be a literal; `gate` outlives the stream.
  TwoWayStream(CallGate& gate, const char* method) : gate_(gate), method_(method) {
    gate_.StreamOpened(method_);
  }

  // Hands the stream to gRPC, which holds it by a plain pointer until OnDone, and keeps the context
  // as long; `allowed` not OK: it ends with that. `watch` looks whether the peer takes part.
  static grpc::ServerBidiReactor<In, Out>* Begin(std::shared_ptr<TwoWayStream> stream,
                                                 grpc::CallbackServerContext& context,
                                                 StreamWatch& watch, const absl::Status& allowed) {
    TwoWayStream* raw = stream.get();
    raw->context_ = &context;
    raw->self_ = std::move(stream);
    watch.Add(raw->self_);
    MutexLock lock(raw->mutex_);
    if (!allowed.ok()) raw->EndLocked(allowed);
    raw->GoOnLocked();
    return raw;
  }

  // Ends the call. OK: after what it owes; else at once, and what was not answered may have been
  // done all the same.
  void Close(const absl::Status& status) MUSTER_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    EndLocked(status);
    GoOnLocked();
  }

  // How long the error that ends a call waits for a peer that has not read what was written before.
  static constexpr absl::Duration kErrorPatience = absl::Seconds(5);

  // Ends the call when the peer has said or read nothing for too long.
  void CheckDeadline() final {
    const absl::Status allowed = StillAllowed();
    {
      MutexLock lock(mutex_);
      if (!allowed.ok() && !ended_) {
        EndLocked(allowed);
        GoOnLocked();
        return;
      }
      const absl::Duration now = gate_.Now();
      // An error at the end waits for who does not read, but not for long.
      const absl::Duration most =
          status_.ok() ? UnreadPatience() : std::min(UnreadPatience(), kErrorPatience);
      const absl::Duration since = status_.ok() ? write_began_ : std::max(write_began_, failed_at_);
      const bool unread = writing_ && (!allowed.ok() || now - since > most);
      const absl::Duration patience = PatienceLocked();
      const bool waits = reading_ && !ended_ && !OwesLocked();
      const bool silent = waits && now - read_began_ > patience;
      if (finished_ || (!unread && !silent)) return;
      EndLocked(absl::DeadlineExceededError(
          unread ? "the other side does not read its messages"
                 : absl::StrCat("nothing was said for ", HumanDuration(patience))));
      GoOnLocked();
      if (!unread) return;
      cancelling_ = true;
    }
    // The status would wait behind what is not read. Nothing finishes the call meanwhile, so the
    // context is there.
    context_->TryCancel();
    MutexLock lock(mutex_);
    cancelling_ = false;
    GoOnLocked();
  }

 protected:
  // One message, one after another, without the lock. Not OK: the stream ends with that.
  virtual absl::Status Take(In& message) = 0;
  // Whether one more may be read now.
  virtual bool MayReadLocked() const MUSTER_REQUIRES(mutex_) = 0;
  // Takes what is to be written next, which stays as it is until WrittenLocked. Null: nothing yet.
  virtual const Out* NextLocked() MUSTER_REQUIRES(mutex_) = 0;
  virtual void WrittenLocked() MUSTER_REQUIRES(mutex_) {}
  // After it, without the lock.
  virtual void OnWritten() {}
  // Drops what waits to be written: the stream ends with an error.
  virtual void DropWaitingLocked() MUSTER_REQUIRES(mutex_) {}
  // Whether a peer that has said all that it has to say still waits for an answer.
  virtual bool OwesLocked() const MUSTER_REQUIRES(mutex_) { return false; }
  // How long the peer may take until its next message.
  virtual absl::Duration PatienceLocked() const MUSTER_REQUIRES(mutex_) {
    return gate_.patience().silent;
  }
  // How long it may take until the peer has read a message.
  virtual absl::Duration UnreadPatience() const { return gate_.patience().unread; }
  // gRPC is done with the call.
  virtual void OnOver() {}
  // Asked about once a second, without the lock; not OK ends the call with that.
  virtual absl::Status StillAllowed() const { return absl::OkStatus(); }

  // As Close, for who goes on by GoOnLocked.
  void EndLocked(const absl::Status& status) MUSTER_REQUIRES(mutex_) {
    if (finished_) return;
    ended_ = true;
    if (status_.ok() && !status.ok()) failed_at_ = gate_.Now();
    if (status_.ok()) status_ = status;
    if (!status.ok()) DropWaitingLocked();
  }
  // Ends, writes and reads what may be ended, written and read; after any change of what the
  // methods above go by.
  void GoOnLocked() MUSTER_REQUIRES(mutex_) {
    FinishLocked();
    WriteLocked();
    ReadLocked();
  }

  CallGate& gate_;
  Mutex mutex_;
  bool ended_ MUSTER_GUARDED_BY(mutex_) = false;

 private:
  void FinishLocked() MUSTER_REQUIRES(mutex_) {
    const bool owes = status_.ok() && OwesLocked();
    if (!ended_ || finished_ || cancelling_ || writing_ || owes) return;
    finished_ = true;
    this->Finish(ToGrpc(status_));
  }
  void WriteLocked() MUSTER_REQUIRES(mutex_) {
    // A peer that is told why its stream ends gets no more answers.
    if (writing_ || finished_ || !status_.ok()) return;
    const Out* next = NextLocked();
    if (next == nullptr) return;
    writing_ = true;
    write_began_ = gate_.Now();
    this->StartWrite(next);
  }
  void ReadLocked() MUSTER_REQUIRES(mutex_) {
    if (reading_ || ended_ || !MayReadLocked()) return;
    reading_ = true;
    read_began_ = gate_.Now();
    this->StartRead(&incoming_);
  }

  void OnReadDone(bool ok) final {
    // reading_ stays set until the message is taken: an answer to an earlier one, on another
    // thread, must not start a read over it.
    const absl::Status status = ok ? Take(incoming_) : absl::OkStatus();
    MutexLock lock(mutex_);
    reading_ = false;
    if (!ok || !status.ok()) EndLocked(status);
    GoOnLocked();
  }
  void OnWriteDone(bool ok) final {
    const auto self = self_;  // the call cannot be over while it writes, but soon after
    {
      MutexLock lock(mutex_);
      writing_ = false;
      WrittenLocked();
      if (!ok) EndLocked(Gone());
      GoOnLocked();
    }
    OnWritten();
  }
  void OnCancel() final { Close(Gone()); }
  void OnDone() final {
    absl::StatusCode code;
    {
      MutexLock lock(mutex_);
      code = status_.code();
    }
    gate_.StreamClosed(method_, code);
    OnOver();
    self_.reset();  // the last line: it may delete this
  }

  static absl::Status Gone() { return absl::CancelledError("the other side went away"); }

  const char* const method_;
  std::shared_ptr<TwoWayStream> self_;              // until OnDone
  grpc::CallbackServerContext* context_ = nullptr;  // set once
  In incoming_;                                     // of the read under way
  bool reading_ MUSTER_GUARDED_BY(mutex_) = false;
  bool writing_ MUSTER_GUARDED_BY(mutex_) = false;
  bool finished_ MUSTER_GUARDED_BY(mutex_) = false;
  bool cancelling_ MUSTER_GUARDED_BY(mutex_) = false;    // by CheckDeadline
  absl::Duration read_began_ MUSTER_GUARDED_BY(mutex_);  // since boot, as the next
  absl::Duration write_began_ MUSTER_GUARDED_BY(mutex_);
  absl::Duration failed_at_ MUSTER_GUARDED_BY(mutex_);  // when status_ became an error
  absl::Status status_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
