// Fetches over real gRPC, from a controller that gives up on some.
#include "worker/agent/folders/upload_fetcher.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "grpcpp/grpcpp.h"
#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;

// Sends half of "whole", and the rest once it has ended `failures` calls with `code`; OK: it sends
// no more, and waits for the other side to give up.
class Uploads final : public v1::UploadService::Service {
 public:
  Uploads(int failures, grpc::StatusCode code) : failures_(failures), code_(code) {}
  int calls() const { return calls_; }

 private:
  grpc::Status Fetch(grpc::ServerContext* context, const v1::FetchUploadRequest*,
                     grpc::ServerWriter<v1::FetchUploadResponse>* writer) override {
    v1::FetchUploadResponse piece;
    piece.set_data("who");
    writer->Write(piece);
    if (calls_++ < failures_) {
      while (code_ == grpc::StatusCode::OK && !context->IsCancelled()) {
        absl::SleepFor(absl::Milliseconds(1));
      }
      return grpc::Status(code_, "not now");
    }
    piece.set_data("le");
    writer->Write(piece);
    return grpc::Status::OK;
  }

  const int failures_;
  const grpc::StatusCode code_;
  int calls_ = 0;
};

absl::StatusOr<std::string> FetchFrom(
    Uploads& uploads, const std::stop_token& stop = {},
    const std::function<void()>& on_piece = [] {}) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&uploads);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  UploadFetcher fetcher(MakeChannel({.address = "127.0.0.1:" + std::to_string(port)}), "token");
  return fetcher.Fetch("abc", stop, on_piece);
}

TEST(UploadFetcherTest, ACallThatTheControllerGaveUpIsMadeAgainFromTheFirstByte) {
  for (const auto code : {grpc::StatusCode::CANCELLED, grpc::StatusCode::UNAVAILABLE}) {
    Uploads uploads(1, code);
    ASSERT_OK_AND_ASSIGN(const std::string bytes, FetchFrom(uploads));
    EXPECT_EQ(bytes, "whole");
    EXPECT_EQ(uploads.calls(), 2);
  }
}

TEST(UploadFetcherTest, EachPieceIsSaid) {
  Uploads uploads(1, grpc::StatusCode::UNAVAILABLE);
  int pieces = 0;
  ASSERT_OK(FetchFrom(uploads, {}, [&] { ++pieces; }));
  EXPECT_EQ(pieces, 3);
}

TEST(UploadFetcherTest, WhatIsStoppedIsNeitherWaitedForNorAskedForAgain) {
  Uploads silent(1, grpc::StatusCode::OK);
  std::stop_source stop;
  EXPECT_THAT(FetchFrom(silent, stop.get_token(), [&] { stop.request_stop(); }),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(silent.calls(), 1);
}

TEST(UploadFetcherTest, WhatIsNotThereIsNotAskedForAgain) {
  Uploads uploads(1, grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(FetchFrom(uploads), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(uploads.calls(), 1);
}

}  // namespace
}  // namespace muster::worker
