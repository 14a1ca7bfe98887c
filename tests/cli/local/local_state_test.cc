#include "cli/local/local_state.h"

#include <gtest/gtest.h>

#include "cli/local/local_supervisor.h"
#include "tests/support/status_matchers.h"

namespace muster::cli {
namespace {

using muster::testing::StatusIs;

LocalRecord Record() {
  LocalRecord record{.dir = "/d", .supervisor_pid = 4, .stopping = true};
  record.daemons.push_back({.name = "musterd",
                            .pid = 5,
                            .grpc_address = "127.0.0.1:7070",
                            .metrics_url = "http://127.0.0.1:7072/metrics",
                            .restarts = 2,
                            .state = "running"});
  record.daemons.push_back({.name = "worker-1", .state = "restarting"});
  return record;
}

TEST(LocalRecord, SurvivesTheRoundTrip) {
  ASSERT_OK_AND_ASSIGN(const LocalRecord record, DecodeLocalRecord(EncodeLocalRecord(Record())));
  EXPECT_EQ(EncodeLocalRecord(record), EncodeLocalRecord(Record()));
  EXPECT_EQ(record.supervisor_pid, 4);
  EXPECT_TRUE(record.stopping);
  ASSERT_EQ(record.daemons.size(), 2u);
  EXPECT_EQ(record.daemons[0].restarts, 2u);
}

TEST(LocalRecord, AnythingElseIsRefused) {
  for (const char* text : {"", "{", "[]", "{}", R"({"daemons":3})", R"({"daemons":[1]})"}) {
    EXPECT_THAT(DecodeLocalRecord(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(LocalStatus, HasTheKeysThatScriptsRead) {
  EXPECT_EQ(
      LocalStatusJson(Record(), true).dump(),
      R"({"dir":"/d","running":true,"supervisor_pid":4,"daemons":[)"
      R"({"name":"musterd","pid":5,"grpc_address":"127.0.0.1:7070",)"
      R"("metrics_url":"http://127.0.0.1:7072/metrics","restarts":2,"state":"running"},)"
      R"({"name":"worker-1","pid":0,"grpc_address":"","metrics_url":"","restarts":0,"state":"restarting"}]})");
  EXPECT_EQ(LocalStatusJson({.dir = "/d"}, false).dump(),
            R"({"dir":"/d","running":false,"supervisor_pid":null,"daemons":[]})");
}

TEST(Endpoints, ComeFromMusterdAndFromWorkers) {
  ASSERT_OK_AND_ASSIGN(
      const Endpoints musterd,
      DecodeEndpoints(
          R"({"grpc_address":"a:1","worker_address":"a:2","http_address":"a:3","pid":9,"term":1})"));
  EXPECT_EQ(musterd.worker_address, "a:2");
  EXPECT_EQ(musterd.http_address, "a:3");
  ASSERT_OK_AND_ASSIGN(const Endpoints worker,
                       DecodeEndpoints(R"({"metrics_address":"a:4","pid":9,"name":"w"})"));
  EXPECT_EQ(worker.http_address, "a:4");
  EXPECT_THAT(DecodeEndpoints(R"({"pid":"9"})"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DecodeEndpoints("x"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(RestartDelay, DoublesForStartsThatDoNotLastUpToABound) {
  const absl::Duration second = absl::Seconds(1);
  EXPECT_EQ(RestartDelay(second, 0), second);
  EXPECT_EQ(RestartDelay(second, 1), second);
  EXPECT_EQ(RestartDelay(second, 2), 2 * second);
  EXPECT_EQ(RestartDelay(second, 4), 8 * second);
  EXPECT_EQ(RestartDelay(second, 1000), absl::Seconds(15));
  EXPECT_EQ(RestartDelay(absl::Minutes(1), 9), absl::Minutes(1))
      << "never below what was asked for";
}

}  // namespace
}  // namespace muster::cli
