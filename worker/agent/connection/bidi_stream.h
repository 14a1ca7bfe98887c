// One bidirectional gRPC stream to the controller, seen from the agent's loop: messages are queued
// and written one after the other; what arrives, and the end, come as tasks on the loop. gRPC's
// callback API; no thread of our own.
//
// What is said in one turn of the loop is written together (packed_queue.h).
//
// The next message is read only after the last one was handled, so a slow loop pushes back on the
// controller. The stream owns itself until gRPC is done with it; the user's pointer is a second
// owner. After Close no handler is called.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/rpc/packed_queue.h"
#include "common/rpc/status_map.h"
#include "common/rpc/token.h"
#include "worker/agent/base/mailbox.h"

namespace muster::worker {

template <typename Out, typename In>
class BidiStream final : public grpc::ClientBidiReactor<Out, In> {
 public:
  // More unwritten messages mean a controller that does not read: the stream is given up.
  static constexpr size_t kMaxQueued = 4096;

  struct Handlers {
    std::function<void(const In&)> on_message;
    std::function<void(absl::Status)> on_end;  // once, unless Close came first
  };
  // Begins the call on a stub: stub->async()->Control(context, reactor).
  using Begin = std::function<void(grpc::ClientContext*, grpc::ClientBidiReactor<Out, In>*)>;

  static std::shared_ptr<BidiStream> Start(std::shared_ptr<Mailbox> mailbox,
                                           const std::string& token, const Begin& begin,
                                           Handlers handlers) {
    auto stream =
        std::shared_ptr<BidiStream>(new BidiStream(std::move(mailbox), std::move(handlers)));
    stream->self_ = stream;
    AddToken(stream->context_, token);
    begin(&stream->context_, stream.get());
    // Reads and writes are started from the loop, outside of gRPC's reactions.
    stream->AddHold();
    stream->StartRead(&stream->incoming_);
    stream->StartCall();
    return stream;
  }

  ~BidiStream() override { mailbox_->RemoveSender(); }

  // Loop only.
  void Send(Out message) {
    if (closed_) return;
    bool overflow = false;
    {
      MutexLock lock(mutex_);
      queue_.Push(std::move(message));
      overflow = queue_.size() > kMaxQueued;
    }
    if (overflow) context_.TryCancel();
    if (std::exchange(flush_posted_, true)) return;
    mailbox_->Post([stream = self_] { stream->Flush(); });
  }

  // Any thread: written at once, without the loop's help. Dropped once the call has ended.
  void SendFromAnyThread(Out message) {
    {
      MutexLock lock(mutex_);
      if (released_ || queue_.size() > kMaxQueued) return;
      queue_.Push(std::move(message));
      if (writing_) return;  // goes with what follows
      writing_ = true;
      outgoing_ = queue_.Take();
      this->AddHold();  // the loop may let go meanwhile
    }
    this->StartWrite(&outgoing_);
    this->RemoveHold();
  }

  // Loop only. Ends the call; safe at any time and more than once.
  void Close() {
    ended_ = false;
    Release();
  }

 private:
  BidiStream(std::shared_ptr<Mailbox> mailbox, Handlers handlers)
      : mailbox_(std::move(mailbox)), handlers_(std::move(handlers)) {
    mailbox_->AddSender();
  }

  void Flush() {
    flush_posted_ = false;
    if (closed_) return;
    {
      MutexLock lock(mutex_);
      if (writing_ || queue_.empty()) return;
      writing_ = true;
      outgoing_ = queue_.Take();
    }
    this->StartWrite(&outgoing_);
  }

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(mutex_);
      // A failed write ends the stream; OnReadDone and OnDone tell.
      if (!ok) return;
      if (queue_.empty()) {
        writing_ = false;
        return;
      }
      outgoing_ = queue_.Take();
    }
    this->StartWrite(&outgoing_);
  }

  void OnReadDone(bool ok) override {
    mailbox_->Post([stream = self_, ok] {
      if (stream->closed_) return;
      if (!ok) {
        stream->Finish();
        return;
      }
      const In message = std::move(stream->incoming_);
      stream->incoming_ = In();
      ForEachPacked(message, [&](const In& each) {
        stream->handlers_.on_message(each);
        return !stream->closed_;
      });
      if (!stream->closed_) stream->StartRead(&stream->incoming_);
    });
  }

  // The other side ended the call: nothing more is started, so the hold can go; the status comes
  // with OnDone.
  void Finish() {
    ended_ = true;
    Release();
  }

  void Release() {
    if (std::exchange(closed_, true)) return;
    {
      MutexLock lock(mutex_);
      released_ = true;
    }
    context_.TryCancel();
    this->RemoveHold();
  }

  void OnDone(const grpc::Status& status) override {
    std::shared_ptr<BidiStream> self = std::move(self_);
    const std::shared_ptr<Mailbox> mailbox = mailbox_;
    mailbox->Post([stream = std::move(self), status = FromGrpc(status)] {
      if (stream->ended_) stream->handlers_.on_end(status);
    });
  }

  const std::shared_ptr<Mailbox> mailbox_;
  const Handlers handlers_;
  grpc::ClientContext context_;
  std::shared_ptr<BidiStream> self_;
  In incoming_;
  Out outgoing_;
  Mutex mutex_;
  PackedQueue<Out> queue_ MUSTER_GUARDED_BY(mutex_);
  bool writing_ MUSTER_GUARDED_BY(mutex_) = false;
  bool released_ MUSTER_GUARDED_BY(mutex_) = false;  // closed_, for other threads
  // Loop only.
  bool flush_posted_ = false;
  bool closed_ = false;
  bool ended_ = false;
};

}  // namespace muster::worker
