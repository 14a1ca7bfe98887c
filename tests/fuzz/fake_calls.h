// Calls of the services' callback API without a network: what gRPC's server would do with the
// reactor that a handler returns, done by hand. The handler, its stream classes and all behind them
// are the real ones.
//
// A handler may start an operation under its own lock, so that nothing is answered in the call
// itself: what is owed waits in CallBoard and is given by Deliver, on the fuzzer's thread.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>
#include <stdio.h>
#include <stdlib.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/base/mutex.h"

// gRPC names this class a friend, for tests that must see into a context; it defines none itself.
namespace grpc::testing {
class InteropServerContextInspector {
 public:
  static void AddMetadata(ServerContextBase& context, const char* key, const std::string& value) {
    context.client_metadata_.map()->insert(
        {string_ref(key), string_ref(value.data(), value.size())});
  }
};
}  // namespace grpc::testing

namespace muster::testing {

// Whether it comes through gRPC: whoever parses a message refuses all of it for one string that is
// no UTF-8.
template <typename Message>
bool Travels(const Message& message) {
  return Message().ParseFromString(message.SerializeAsString());
}
template <typename Message>
void MustTravel(const Message& message) {
  if (Travels(message)) return;
  ::fprintf(stderr, "BROKEN: nobody can read this %s:\n%s\n", message.GetTypeName().c_str(),
            message.ShortDebugString().substr(0, 2000).c_str());
  ::abort();
}

// Reactions that are due. Thread-safe.
class CallBoard {
 public:
  void Owe(std::function<void()> reaction) {
    MutexLock lock(mutex_);
    due_.push_back(std::move(reaction));
    changed_.NotifyAll();
  }
  void Opened() {
    MutexLock lock(mutex_);
    ++open_;
  }
  void Done() {
    MutexLock lock(mutex_);
    --open_;
    changed_.NotifyAll();
  }
  // Gives all that is due, and what becomes due by that.
  void Deliver() {
    while (true) {
      std::function<void()> next;
      {
        MutexLock lock(mutex_);
        if (due_.empty()) return;
        next = std::move(due_.front());
        due_.pop_front();
      }
      next();
    }
  }
  // Delivers until `ready` holds; false when nothing happens for too long: a hang.
  bool DeliverUntil(const std::function<bool()>& ready) {
    constexpr absl::Duration kHang = absl::Seconds(20);
    while (true) {
      Deliver();
      if (ready()) return true;
      MutexLock lock(mutex_);
      if (due_.empty() && !changed_.WaitFor(mutex_, kHang)) return false;
    }
  }
  int open() const {
    MutexLock lock(mutex_);
    return open_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> due_ MUSTER_GUARDED_BY(mutex_);
  int open_ MUSTER_GUARDED_BY(mutex_) = 0;
};

// A context that carries the token.
class FakeContext {
 public:
  explicit FakeContext(std::string authorization) : authorization_(std::move(authorization)) {
    grpc::testing::InteropServerContextInspector::AddMetadata(context_, "authorization",
                                                              authorization_);
  }
  grpc::CallbackServerContext* get() { return &context_; }

 private:
  const std::string authorization_;
  grpc::CallbackServerContext context_;
};

// One call; it lives until its reactor is done with it. `Base` is one of gRPC's ServerCallback...
template <typename Base, typename Reactor>
class FakeCall : public Base, public std::enable_shared_from_this<FakeCall<Base, Reactor>> {
 public:
  FakeCall(CallBoard& board, const std::string& authorization)
      : board_(board), context_(authorization) {
    board_.Opened();
  }
  grpc::CallbackServerContext* context() { return context_.get(); }
  void Bind(Reactor* reactor) {
    self_ = this->shared_from_this();
    reactor_ = reactor;
    this->BindReactor(reactor);
  }
  bool finished() const { return finished_; }

  void Finish(grpc::Status status) override {
    status_ = std::move(status);
    board_.Owe([self = this->shared_from_this()] {
      self->finished_ = true;
      static_cast<grpc::internal::ServerReactor*>(self->reactor_)->OnDone();
      self->board_.Done();
      self->self_.reset();
    });
  }
  void SendInitialMetadata() override {}

 protected:
  Reactor* bound() const { return reactor_; }
  CallBoard& board() const { return board_; }

 private:
  grpc::internal::ServerReactor* reactor() override { return reactor_; }
  void CallOnDone() override {}

  CallBoard& board_;
  FakeContext context_;
  Reactor* reactor_ = nullptr;
  std::shared_ptr<FakeCall> self_;
  std::atomic<bool> finished_ = false;
  grpc::Status status_;
};

template <typename Request, typename Response>
class FakeUnary final : public FakeCall<grpc::ServerCallbackUnary, grpc::ServerUnaryReactor> {
 public:
  using FakeCall::FakeCall;
  void Finish(grpc::Status status) override {
    if (status.ok()) MustTravel(response);
    FakeCall::Finish(std::move(status));
  }
  Request request;
  Response response;
};

template <typename Request, typename Response>
class FakeWriter final
    : public FakeCall<grpc::ServerCallbackWriter<Response>, grpc::ServerWriteReactor<Response>> {
 public:
  using Parent = FakeCall<grpc::ServerCallbackWriter<Response>, grpc::ServerWriteReactor<Response>>;
  using Parent::Parent;
  void Write(const Response* message, grpc::WriteOptions) override {
    MustTravel(*message);
    this->board().Owe([self = this->shared_from_this(), this, copy = *message] {
      if (on_message) on_message(copy);
      if (!this->finished()) this->bound()->OnWriteDone(true);
    });
  }
  void WriteAndFinish(const Response*, grpc::WriteOptions, grpc::Status status) override {
    this->Finish(std::move(status));
  }
  void Finish(grpc::Status status) override {
    ok_ = status.ok();
    Parent::Finish(std::move(status));
  }
  void Cancel() {
    if (!this->finished()) this->bound()->OnCancel();
  }
  bool ok() const { return ok_; }
  Request request;
  std::function<void(const Response&)> on_message;

 private:
  std::atomic<bool> ok_ = false;
};

// Who sends many and hears one answer.
template <typename Request, typename Response>
class FakeReader final
    : public FakeCall<grpc::ServerCallbackReader<Request>, grpc::ServerReadReactor<Request>> {
 public:
  using Parent = FakeCall<grpc::ServerCallbackReader<Request>, grpc::ServerReadReactor<Request>>;
  using Parent::Parent;
  void Read(Request* message) override {
    reading_ = message;
    this->board().Owe([] {});  // whoever waits for the handler to listen looks again
  }
  void Finish(grpc::Status status) override {
    ok_ = status.ok();
    if (ok_) MustTravel(response);
    this->board().Owe([self = this->shared_from_this(), this] { HangUp(); });
    Parent::Finish(std::move(status));
  }

  bool listens() const { return reading_.load() != nullptr; }
  bool ok() const { return ok_; }
  // As FakeBidi's.
  bool Say(const Request& message) {
    if (!Travels(message)) return false;
    Request* target = reading_.exchange(nullptr);
    if (target == nullptr || this->finished()) return false;
    *target = message;
    this->bound()->OnReadDone(true);
    return true;
  }
  void HangUp() {
    if (reading_.exchange(nullptr) != nullptr) this->bound()->OnReadDone(false);
  }
  Response response;

 private:
  std::atomic<Request*> reading_ = nullptr;
  std::atomic<bool> ok_ = false;
};

template <typename Request, typename Response>
class FakeBidi final : public FakeCall<grpc::ServerCallbackReaderWriter<Request, Response>,
                                       grpc::ServerBidiReactor<Request, Response>> {
 public:
  using Parent = FakeCall<grpc::ServerCallbackReaderWriter<Request, Response>,
                          grpc::ServerBidiReactor<Request, Response>>;
  using Parent::Parent;
  void Read(Request* message) override { reading_ = message; }
  // A read that is under way ends with the call, before OnDone.
  void Finish(grpc::Status status) override {
    this->board().Owe([self = this->shared_from_this(), this] { HangUp(); });
    Parent::Finish(std::move(status));
  }
  void Write(const Response* message, grpc::WriteOptions) override {
    MustTravel(*message);
    this->board().Owe([self = this->shared_from_this(), this, copy = *message] {
      if (on_message) on_message(copy);
      if (!this->finished()) this->bound()->OnWriteDone(true);
    });
  }
  void WriteAndFinish(const Response*, grpc::WriteOptions, grpc::Status status) override {
    this->Finish(std::move(status));
  }

  // The peer says something; false when the handler does not listen, or gRPC would refuse it.
  bool Say(const Request& message) {
    if (!Travels(message)) return false;
    Request* target = reading_.exchange(nullptr);
    if (target == nullptr || this->finished()) return false;
    *target = message;
    this->bound()->OnReadDone(true);
    return true;
  }
  void HangUp() {
    if (reading_.exchange(nullptr) != nullptr) this->bound()->OnReadDone(false);
  }
  void Cancel() {
    if (!this->finished()) this->bound()->OnCancel();
  }
  std::function<void(const Response&)> on_message;

 private:
  std::atomic<Request*> reading_ = nullptr;
};

}  // namespace muster::testing
