// What ThreadSanitizer says of threads that meet in gRPC (common/rpc/tsan_hand_overs.cc): nothing
// of an object that is handed over, and a race where two threads use one at the same time. Built
// for ThreadSanitizer only.
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace muster {
namespace {

using Response = v1::StreamEventsResponse;

// Counts the turns that its threads take, without a lock: gRPC's, which begin the call and tell of
// written messages, and its own.
class Stream : public grpc::ServerWriteReactor<Response> {
 public:
  explicit Stream(int& turns) : turns_(turns) {}

 protected:
  void TakeTurn() { ++turns_; }

  int& turns_;
  Response response_;
};

constexpr int kTurns = 100;

// Each thread takes its turn before it hands the stream to the next: gRPC's to a new one by its
// start, that one to gRPC's by the start of a message.
class HandedOver final : public Stream {
 public:
  explicit HandedOver(int& turns) : Stream(turns) { GoOn(); }

 private:
  void GoOn() {
    TakeTurn();
    MutexLock lock(mutex_);
    own_.emplace_back([this] {
      TakeTurn();
      if (turns_ < kTurns) {
        StartWrite(&response_);
      } else {
        Finish(grpc::Status::OK);
      }
    });
  }
  void OnWriteDone(bool) override { GoOn(); }
  void OnDone() override {
    TakeTurn();
    {
      MutexLock lock(mutex_);
      for (std::thread& thread : own_) thread.join();
    }
    delete this;
  }

  Mutex mutex_;
  std::vector<std::thread> own_ MUSTER_GUARDED_BY(mutex_);
};

// The stream's own thread takes its turn while gRPC's may.
class Raced final : public Stream {
 public:
  explicit Raced(int& turns) : Stream(turns) {
    own_ = std::thread([this] { TakeTurn(); });
    StartWrite(&response_);
  }

 private:
  void OnWriteDone(bool) override {
    TakeTurn();
    Finish(grpc::Status::OK);
  }
  void OnDone() override {
    own_.join();
    delete this;
  }

  std::thread own_;
};

class Service final : public v1::JobService::CallbackService {
 public:
  explicit Service(std::function<Stream*()> make) : make_(std::move(make)) {}
  grpc::ServerWriteReactor<Response>* StreamEvents(grpc::CallbackServerContext*,
                                                   const v1::StreamEventsRequest*) override {
    return make_();
  }

 private:
  const std::function<Stream*()> make_;
};

// One call from its begin to its end. Returns how many messages came.
int Call(std::function<Stream*()> make) {
  Service service(std::move(make));
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto stub = v1::JobService::NewStub(
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto reader = stub->StreamEvents(&context, {});
  int messages = 0;
  for (Response response; reader->Read(&response);) ++messages;
  EXPECT_TRUE(reader->Finish().ok());
  server->Shutdown();
  return messages;
}

TEST(TsanHandOversTest, HandOversThroughGrpcAreNoRaces) {
  // A report makes the program fail at its end.
  int turns = 0;
  EXPECT_EQ(Call([&] { return new HandedOver(turns); }), kTurns / 2 - 1);
  EXPECT_EQ(turns, kTurns + 1);  // the last in OnDone, before the server had shut down
}

// Both in a process of its own, which ThreadSanitizer ends with 66 after a report.
TEST(TsanHandOversDeathTest, OneObjectOnTwoThreadsIsARace) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    int turns = 0;
    Call([&] { return new Raced(turns); });
    ::exit(0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(66), "data race.*TakeTurn");
}

}  // namespace
}  // namespace muster
