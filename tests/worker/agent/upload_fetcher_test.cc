// Fetches over real gRPC, from a controller that gives up on some.
#include "worker/agent/upload_fetcher.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/rpc/channel.h"
#include "grpcpp/grpcpp.h"
#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;

// Sends half of "whole", and the rest once it has ended `failures` calls with `code`.
class Uploads final : public v1::UploadService::Service {
 public:
  Uploads(int failures, grpc::StatusCode code) : failures_(failures), code_(code) {}
  int calls() const { return calls_; }

 private:
  grpc::Status Fetch(grpc::ServerContext*, const v1::FetchUploadRequest*,
                     grpc::ServerWriter<v1::FetchUploadResponse>* writer) override {
    v1::FetchUploadResponse piece;
    piece.set_data("who");
    writer->Write(piece);
    if (calls_++ < failures_) return grpc::Status(code_, "not now");
    piece.set_data("le");
    writer->Write(piece);
    return grpc::Status::OK;
  }

  const int failures_;
  const grpc::StatusCode code_;
  int calls_ = 0;
};

absl::StatusOr<std::string> FetchFrom(Uploads& uploads) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&uploads);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  UploadFetcher fetcher(MakeChannel({.address = "127.0.0.1:" + std::to_string(port)}), "token");
  return fetcher.Fetch("abc");
}

TEST(UploadFetcherTest, ACallThatTheControllerGaveUpIsMadeAgainFromTheFirstByte) {
  for (const auto code : {grpc::StatusCode::CANCELLED, grpc::StatusCode::UNAVAILABLE}) {
    Uploads uploads(1, code);
    ASSERT_OK_AND_ASSIGN(const std::string bytes, FetchFrom(uploads));
    EXPECT_EQ(bytes, "whole");
    EXPECT_EQ(uploads.calls(), 2);
  }
}

TEST(UploadFetcherTest, WhatIsNotThereIsNotAskedForAgain) {
  Uploads uploads(1, grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(FetchFrom(uploads), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(uploads.calls(), 1);
}

}  // namespace
}  // namespace muster::worker
