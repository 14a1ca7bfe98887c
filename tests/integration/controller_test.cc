// What musterd promises to those who talk to it: one owner of its data, one job for a repeated
// submit, no word without the token, and a clear no to a protocol that it does not speak.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "muster/v1/job_service.grpc.pb.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kCallTimeout = absl::Seconds(20);

// Never starts: it waits for a pool that has no workers.
constexpr char kWaitingJob[] =
    "name: waiting\n"
    "placement: {pool: nowhere, wait_for_capacity: true}\n"
    "train:\n"
    "  model: {mlp: {hidden: [8]}}\n"
    "  data: {synthetic: {samples: 64, shape: [4]}}\n"
    "  batch_size: 8\n"
    "  steps: 10\n";

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Controller : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NO_FATAL_FAILURE(cluster_.Up(1)); }

  std::unique_ptr<v1::JobService::Stub> Stub() {
    return v1::JobService::NewStub(grpc::CreateChannel(
        Text(cluster_.Daemon("musterd"), "grpc_address"), grpc::InsecureChannelCredentials()));
  }
  void Prepare(grpc::ClientContext& context, const std::string& token) {
    context.set_deadline(absl::ToChronoTime(Now() + kCallTimeout));
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  }
  std::string Token() {
    return std::string(
        absl::StripAsciiWhitespace(ReadAll(cluster_.Path("local/controller/token"))));
  }
  size_t JobCount() {
    const Json answer = cluster_.CliJson({"ls"});
    return (answer.is_array() ? answer : Member(answer, "jobs")).size();
  }
  void KillController() {
    const ProcessId old = cluster_.DaemonProcess("musterd");
    ASSERT_EQ(::kill(old.pid, SIGKILL), 0);
    // The supervisor starts it again, on the same ports.
    ASSERT_TRUE(WaitUntil(absl::Seconds(30),
                          [&] { return !IsAlive(old) && cluster_.Cli({"ls"}).exit_code == 0; }));
  }

  Cluster cluster_;
};

TEST_F(Controller, RefusesASecondOneOnTheSameData) {
  const std::string folder = cluster_.Path("local/controller");
  const ProcessResult second =
      RunProcess({BinDir() + "/musterd", "--data-dir", folder, "--listen", "127.0.0.1:0",
                  "--worker-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"},
                 cluster_.environment(), absl::Seconds(20));
  EXPECT_FALSE(second.timed_out);
  EXPECT_NE(second.exit_code, 0);
  EXPECT_THAT(second.err, HasSubstr(folder));
  EXPECT_THAT(second.err, HasSubstr(absl::StrCat(cluster_.DaemonProcess("musterd").pid)));
  EXPECT_EQ(cluster_.Cli({"ls"}).exit_code, 0);
}

TEST_F(Controller, SubmitRepeatedAfterACrashIsTheSameJob) {
  const std::vector<std::string> key = {"--idempotency-key", "key-1"};
  const uint64_t job = cluster_.Submit(kWaitingJob, key);
  ASSERT_GT(job, 0u);
  ASSERT_NO_FATAL_FAILURE(KillController());
  EXPECT_EQ(cluster_.Submit(kWaitingJob, key), job);
  EXPECT_EQ(JobCount(), 1u);
  EXPECT_EQ(cluster_.State(job), "PENDING");

  // The same key with another content is an error, and starts nothing.
  const std::string other = cluster_.Path("other.yaml");
  std::ofstream(other) << kWaitingJob << "tags: {a: b}\n";
  const ProcessResult refused = cluster_.Cli({"submit", "-f", other, "--idempotency-key", "key-1"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("key-1"));
  EXPECT_EQ(JobCount(), 1u);
}

TEST_F(Controller, TermGrowsWithEachStart) {
  auto term = [&] {
    grpc::ClientContext context;
    Prepare(context, Token());
    v1::GetVersionResponse response;
    EXPECT_TRUE(Stub()->GetVersion(&context, {}, &response).ok());
    return response.term();
  };
  const uint64_t first = term();
  ASSERT_NO_FATAL_FAILURE(KillController());
  EXPECT_EQ(term(), first + 1);
}

TEST_F(Controller, WhatItWritesIsItsUsersAlone) {
  size_t files = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(cluster_.Path("local/controller"))) {
    const auto others = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
    EXPECT_EQ(entry.status().permissions() & others, std::filesystem::perms::none) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 3u) << "state.db, metrics.db, the token";
}

TEST_F(Controller, SaysNothingWithoutTheToken) {
  for (const std::string& token : {std::string(), std::string("wrong")}) {
    grpc::ClientContext context;
    Prepare(context, token);
    v1::ListJobsResponse response;
    const grpc::Status status = Stub()->ListJobs(&context, {}, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << status.error_message();
  }
}

TEST_F(Controller, RefusesAProtocolThatItDoesNotSpeak) {
  for (const uint32_t version : {0u, 1000000u}) {
    grpc::ClientContext context;
    Prepare(context, Token());
    v1::SubmitRequest request;
    request.set_protocol_version(version);
    request.mutable_spec()->set_name("x");
    v1::SubmitResponse response;
    const grpc::Status status = Stub()->Submit(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("protocol"));
  }
  EXPECT_EQ(JobCount(), 0u);
}

TEST_F(Controller, LeavesOnSigterm) {
  const ProcessId supervisor = cluster_.Supervisor();
  const ProcessId controller = cluster_.DaemonProcess("musterd");
  ASSERT_EQ(::kill(supervisor.pid, SIGSTOP), 0);
  ASSERT_EQ(::kill(controller.pid, SIGTERM), 0);
  EXPECT_TRUE(WaitUntil(absl::Seconds(20), [&] { return !IsAlive(controller); }));
  ASSERT_EQ(::kill(supervisor.pid, SIGCONT), 0);
}

}  // namespace
}  // namespace muster::testing
