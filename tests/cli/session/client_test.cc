// Calls to peers that hang up, and to none.
#include "cli/session/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "cli/session/error.h"
#include "tests/cli/cli_run.h"
#include "tests/support/raw_peer.h"
#include "tests/support/status_matchers.h"

namespace muster::cli {
namespace {

using muster::testing::DataFrame;
using muster::testing::HeadersFrame;
using muster::testing::Prefixed;
using muster::testing::RawPeer;
using muster::testing::SettingsFrame;
using muster::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::Duration kTimeout = absl::Minutes(1);

void AwaitCall(RawPeer::Connection& connection) {
  connection.Send(SettingsFrame());
  while (connection.received.find("/muster.v1.JobService/") == std::string::npos &&
         connection.Receive()) {
  }
}

void AnswerVersion(RawPeer::Connection& connection) {
  v1::GetVersionResponse response;
  response.set_version("9.9");
  connection.Send(HeadersFrame({{":status", "200"}, {"content-type", "application/grpc"}}, false) +
                  DataFrame(Prefixed(response.SerializeAsString()), false) +
                  HeadersFrame({{"grpc-status", "0"}}, /*end_stream=*/true));
  connection.AwaitHangUp();
}

TEST(ClientTest, ACallThatReadsIsMadeAgainWhenItsConnectionWasLost) {
  std::atomic<int> connections = 0;
  RawPeer peer(
      [&](RawPeer::Connection& connection) {
        AwaitCall(connection);
        if (++connections == 2) AnswerVersion(connection);
      },
      /*connections=*/2);
  const auto answer = Client({.address = peer.address()})
                          .Call(&Jobs::GetVersion, v1::GetVersionRequest(), kTimeout);
  ASSERT_OK(answer);
  EXPECT_EQ(answer->version(), "9.9");
}

TEST(ClientTest, ACallThatReadsIsMadeTwiceAtMost) {
  std::atomic<int> connections = 0;
  {
    RawPeer peer(
        [&](RawPeer::Connection& connection) {
          ++connections;
          AwaitCall(connection);
        },
        /*connections=*/3);
    const absl::Status status = Client({.address = peer.address()})
                                    .Call(&Jobs::GetVersion, v1::GetVersionRequest(), kTimeout)
                                    .status();
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kUnavailable,
                         StartsWith(absl::StrCat("the controller at ", peer.address(), ": "))));
    EXPECT_EQ(HintOf(status), "try again in a moment");
  }
  EXPECT_EQ(connections, 2);
}

TEST(ClientTest, ACallThatChangesSomethingIsMadeOnce) {
  std::atomic<int> connections = 0;
  {
    RawPeer peer(
        [&](RawPeer::Connection& connection) {
          ++connections;
          AwaitCall(connection);
        },
        /*connections=*/2);
    EXPECT_THAT(Client({.address = peer.address()})
                    .CallOnce(&Jobs::CancelJob, v1::CancelJobRequest(), kTimeout),
                StatusIs(absl::StatusCode::kUnavailable));
  }
  EXPECT_EQ(connections, 1);
}

// The second connection is closed before it says a word, as where nothing listens any more.
TEST(ClientTest, WhoWasThereAMomentAgoIsNotReportedAsAbsent) {
  std::atomic<int> connections = 0;
  RawPeer peer(
      [&](RawPeer::Connection& connection) {
        if (++connections == 1) AwaitCall(connection);
      },
      /*connections=*/2);
  EXPECT_THAT(Client({.address = peer.address()})
                  .Call(&Jobs::GetVersion, v1::GetVersionRequest(), kTimeout),
              StatusIs(absl::StatusCode::kUnavailable, Not(HasSubstr("no controller"))));
}

TEST(ClientTest, NoAnswerEndsAtTheDeadlineAndNamesTheAddress) {
  RawPeer peer([](RawPeer::Connection& connection) {
    AwaitCall(connection);
    connection.AwaitHangUp();
  });
  const absl::Status status =
      Client({.address = peer.address()})
          .Call(&Jobs::GetVersion, v1::GetVersionRequest(), absl::Milliseconds(300))
          .status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr(peer.address())));
  EXPECT_THAT(HintOf(status), HasSubstr("--timeout"));
}

TEST(ClientTest, WhereNobodyIsNothingWasReached) {
  for (const char* address : {"127.0.0.1:1", "[::1]:1", "localhost:1", "no-such-host.invalid:1"}) {
    const Endpoint endpoint = {.address = address};
    StubCall call(endpoint, kTimeout);
    v1::GetVersionResponse response;
    const CallEnd end = call.End(
        Jobs(call.channel()).GetVersion(&call.context(), v1::GetVersionRequest(), &response));
    EXPECT_THAT(end.status, StatusIs(absl::StatusCode::kUnavailable)) << address;
    EXPECT_EQ(end.reached, absl::ZeroDuration()) << address;
    EXPECT_THAT(
        Client(endpoint).Explain(end, kTimeout),
        StatusIs(absl::StatusCode::kUnavailable, absl::StrCat("no controller at ", address)));
  }
}

TEST(ClientTest, ATryThatReachedNobodyHasForgottenNoWorker) {
  std::atomic<int> connections = 0;
  RawPeer peer(
      [&](RawPeer::Connection& connection) {
        if (++connections == 1) return;
        AwaitCall(connection);
        connection.Send(HeadersFrame({{":status", "200"},
                                      {"content-type", "application/grpc"},
                                      {"grpc-status", "5"},
                                      {"grpc-message", "there is no such worker"}},
                                     /*end_stream=*/true));
        connection.AwaitHangUp();
      },
      /*connections=*/2);
  testing::CliRun run;
  run.env()["MUSTER_ADDR"] = peer.address();
  const testing::CliResult result = run({"nodes", "forget", "w1", "--timeout", "1m"});
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("there is no such worker"));
}

// A port that takes the connection and says nothing: the interrupt comes while gRPC connects.
TEST(ClientTest, AnInterruptEndsAStreamThatIsStillConnecting) {
  InterruptGuard guard;
  absl::Notification ended;
  RawPeer peer([&](RawPeer::Connection&) {
    ::kill(::getpid(), SIGINT);
    ended.WaitForNotification();
  });
  ReadCall stream(&Jobs::WatchJob, v1::WatchJobRequest(), {.address = peer.address()},
                  absl::InfiniteDuration(), guard);
  v1::WatchJobResponse response;
  EXPECT_FALSE(stream.Read(response));
  EXPECT_THAT(stream.Finish().status, StatusIs(absl::StatusCode::kCancelled));
  ended.Notify();
}

// A controller that answers so many calls, with nothing in them, and hangs at the next one, where
// the interrupt comes. `verb` must end long before the call's deadline.
testing::CliResult InterruptAtCall(int answered, const std::vector<std::string>& verb) {
  constexpr absl::Duration kDeadline = absl::Seconds(20);
  std::atomic<int> connections = 0;
  RawPeer peer(
      [&](RawPeer::Connection& connection) {
        AwaitCall(connection);
        if (++connections <= answered) {
          connection.Send(
              HeadersFrame({{":status", "200"}, {"content-type", "application/grpc"}}, false) +
              DataFrame(Prefixed(""), false) +
              HeadersFrame({{"grpc-status", "0"}}, /*end_stream=*/true));
        } else {
          ::kill(::getpid(), SIGINT);
        }
        connection.AwaitHangUp();
      },
      /*connections=*/answered + 1);
  testing::CliRun run;
  run.env()["MUSTER_ADDR"] = peer.address();
  std::vector<std::string> args = verb;
  args.insert(args.end(), {"--timeout", "20s"});
  const absl::Duration began = SteadyNow();
  testing::CliResult result = run(args);
  EXPECT_LT(SteadyNow() - began, kDeadline / 2);
  EXPECT_EQ(connections, answered + 1);
  return result;
}

TEST(ClientTest, AnInterruptEndsTopThoughTheControllerHangs) {
  for (const int answered : {0, 1, 2}) {
    const testing::CliResult result = InterruptAtCall(answered, {"top"});
    EXPECT_EQ(result.code, 0) << "call " << answered << ": " << result.err;
    EXPECT_EQ(result.out + result.err, "") << "call " << answered;
  }
  EXPECT_EQ(InterruptAtCall(0, {"top", "--once"}).code, 130) << "it has shown nothing";
}

TEST(ClientTest, AnInterruptEndsWatchThoughTheControllerHangs) {
  const testing::CliResult result = InterruptAtCall(0, {"watch", "7"});
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.err, HasSubstr("goes on"));
}

}  // namespace
}  // namespace muster::cli
