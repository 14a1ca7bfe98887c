// Calls to peers that break the rules, end early, or never answer.
#include <gtest/gtest.h>

#include <string>

#include "common/call/call.h"
#include "muster/v1/job_service.pb.h"
#include "tests/support/raw_peer.h"
#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using testing::DataFrame;
using testing::Frame;
using testing::GoAwayFrame;
using ::testing::HasSubstr;
using testing::HeadersFrame;
using testing::Prefixed;
using testing::RawPeer;
using testing::ResetFrame;
using testing::SettingsFrame;
using testing::StatusIs;

constexpr Method<v1::GetVersionRequest, v1::GetVersionResponse> kGetVersion{
    "/muster.v1.JobService/GetVersion"};

std::string Head() {
  return HeadersFrame({{":status", "200"}, {"content-type", "application/grpc"}}, false);
}

std::string Trailers(const std::string& code) {
  return HeadersFrame({{"grpc-status", code}}, /*end_stream=*/true);
}

std::string Version() {
  v1::GetVersionResponse response;
  response.set_version("9.9");
  return response.SerializeAsString();
}

// How a call ends when the peer answers with these bytes, and then waits or hangs up.
CallEnd EndAfter(const std::string& bytes, bool hang_up = false,
                 absl::Duration timeout = absl::Seconds(30)) {
  RawPeer peer([&](RawPeer::Connection& connection) {
    if (connection.Send(bytes) && !hang_up) connection.AwaitHangUp();
  });
  v1::GetVersionResponse response;
  return CallOnce(kGetVersion, v1::GetVersionRequest(), response,
                  {.address = peer.address(), .timeout = timeout});
}

void ExpectEnd(const CallEnd& end, absl::StatusCode code, bool by_peer) {
  EXPECT_THAT(end.status, StatusIs(code));
  EXPECT_EQ(end.by_peer, by_peer) << end.status;
}

TEST(HostilePeer, TheRightAnswerByHandIsUnderstood) {
  EXPECT_OK(
      EndAfter(SettingsFrame() + Head() + DataFrame(Prefixed(Version()), false) + Trailers("0"))
          .status);
}

TEST(HostilePeer, BytesThatAreNoHttp2AreUnavailable) {
  for (const std::string& bytes :
       {std::string("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
        std::string("SSH-2.0-OpenSSH_9.2\r\n"), std::string(100'000, '\xff'),
        std::string(64, '\0')}) {
    ExpectEnd(EndAfter(bytes), absl::StatusCode::kUnavailable, /*by_peer=*/false);
  }
}

TEST(HostilePeer, AConnectionThatEndsEarlyIsUnavailable) {
  const std::string whole =
      SettingsFrame() + Head() + DataFrame(Prefixed(Version()), false) + Trailers("0");
  for (size_t size = 0; size < whole.size(); ++size) {
    ExpectEnd(EndAfter(whole.substr(0, size), /*hang_up=*/true), absl::StatusCode::kUnavailable,
              /*by_peer=*/false);
  }
  EXPECT_OK(EndAfter(whole, /*hang_up=*/true).status);
}

TEST(HostilePeer, NoAnswerEndsAtTheDeadline) {
  for (const std::string& bytes : {std::string(), SettingsFrame(), SettingsFrame() + Head()}) {
    ExpectEnd(EndAfter(bytes, false, absl::Milliseconds(50)), absl::StatusCode::kDeadlineExceeded,
              /*by_peer=*/false);
  }
}

TEST(HostilePeer, ResetsAreTheirStatus) {
  ExpectEnd(EndAfter(SettingsFrame() + ResetFrame(7)), absl::StatusCode::kUnavailable, false);
  ExpectEnd(EndAfter(SettingsFrame() + ResetFrame(8)), absl::StatusCode::kCancelled, false);
  ExpectEnd(EndAfter(SettingsFrame() + Head() + ResetFrame(2)), absl::StatusCode::kInternal, false);
}

TEST(HostilePeer, ResetsBehindTheTrailersChangeNothing) {
  EXPECT_OK(EndAfter(SettingsFrame() + Head() + DataFrame(Prefixed(Version()), false) +
                     Trailers("0") + ResetFrame(0))
                .status);
}

TEST(HostilePeer, APeerThatGoesAwayBeforeTheCallIsUnavailable) {
  ExpectEnd(EndAfter(SettingsFrame() + GoAwayFrame(0, 0)), absl::StatusCode::kUnavailable, false);
  ExpectEnd(EndAfter(SettingsFrame() + GoAwayFrame(0, 11)), absl::StatusCode::kUnavailable, false);
}

TEST(HostilePeer, APeerThatGoesAwayAfterTheCallStillAnswersIt) {
  EXPECT_OK(EndAfter(SettingsFrame() + GoAwayFrame(1, 0) + Head() +
                     DataFrame(Prefixed(Version()), false) + Trailers("0"))
                .status);
}

TEST(HostilePeer, AnAnswerInTrailersOnlyIsItsStatus) {
  const CallEnd end = EndAfter(SettingsFrame() + HeadersFrame({{":status", "200"},
                                                               {"content-type", "application/grpc"},
                                                               {"grpc-status", "5"},
                                                               {"grpc-message", "no%20job"}},
                                                              true));
  EXPECT_THAT(end.status, StatusIs(absl::StatusCode::kNotFound, "no job"));
  EXPECT_TRUE(end.by_peer);
}

TEST(HostilePeer, AnswersThatAreNotGrpcEndAtTheirHead) {
  ExpectEnd(EndAfter(SettingsFrame() + HeadersFrame({{":status", "404"}}, false)),
            absl::StatusCode::kUnimplemented, /*by_peer=*/true);
  ExpectEnd(EndAfter(SettingsFrame() + HeadersFrame({{":status", "503"}}, false)),
            absl::StatusCode::kUnavailable, /*by_peer=*/true);
  ExpectEnd(EndAfter(SettingsFrame() +
                     HeadersFrame({{":status", "200"}, {"content-type", "text/html"}}, false)),
            absl::StatusCode::kUnknown, /*by_peer=*/true);
}

TEST(HostilePeer, AnswersThatCannotBeReadAreInternal) {
  const std::string begin = SettingsFrame() + Head();
  for (const std::string& rest : {
           Trailers("0"),                         // no message
           DataFrame(Prefixed(Version()), true),  // no status
           DataFrame(Prefixed(Version(), /*compressed=*/true), false) + Trailers("0"),
           DataFrame(Prefixed("\xff\xff\xff"), false) + Trailers("0"),          // not a message
           DataFrame(Prefixed(Version()).substr(0, 7), false) + Trailers("0"),  // cut off
           DataFrame(std::string(3, '\0'), false) + Trailers("0"),              // within a prefix
       }) {
    ExpectEnd(EndAfter(begin + rest), absl::StatusCode::kInternal, /*by_peer=*/false);
  }
}

TEST(HostilePeer, AMessageLongerThanTheLimitIsRefusedByItsPrefix) {
  const CallEnd end =
      EndAfter(SettingsFrame() + Head() + DataFrame(std::string("\0\x7f\xff\xff\xff", 5), false));
  EXPECT_THAT(end.status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("limit")));
  EXPECT_FALSE(end.by_peer);
}

TEST(HostilePeer, HeadersHaveABound) {
  std::vector<std::pair<std::string, std::string>> headers = {{":status", "200"}};
  for (int i = 0; i < 15; ++i) headers.push_back({"x-filler", std::string(1000, 'x')});
  EXPECT_THAT(EndAfter(SettingsFrame() + HeadersFrame(headers, false)).status,
              StatusIs(absl::StatusCode::kUnknown));
  // Over several frames, as one block.
  std::string blocks = Frame(1, 0, 1, testing::HeaderBlock(headers));
  for (int i = 0; i < 3; ++i) {
    blocks += Frame(9, 0, 1, testing::HeaderBlock({headers.begin() + 1, headers.end()}));
  }
  EXPECT_THAT(EndAfter(SettingsFrame() + blocks).status,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("headers")));
}

TEST(HostilePeer, BrokenHeadersAreNoAnswer) {
  ExpectEnd(EndAfter(SettingsFrame() + Frame(1, 4, 1, std::string(10, '\xff'))),
            absl::StatusCode::kUnavailable, false);
  ExpectEnd(EndAfter(SettingsFrame() + HeadersFrame({{":status", "two hundred"}}, false)),
            absl::StatusCode::kInternal, false);
  ExpectEnd(EndAfter(SettingsFrame() + DataFrame(Prefixed(Version()), false)),
            absl::StatusCode::kUnavailable, false);
}

// How a call ends whose peer answers its first connection with these bytes and hangs up, and the
// second as it should.
CallEnd EndOfSecondAfter(const std::string& bytes, bool only_reads, int& connections) {
  connections = 0;
  RawPeer peer(
      [&](RawPeer::Connection& connection) {
        const bool first = ++connections == 1;
        connection.Send(first ? bytes
                              : SettingsFrame() + Head() + DataFrame(Prefixed(Version()), false) +
                                    Trailers("0"));
      },
      /*connections=*/2);
  v1::GetVersionResponse response;
  return CallOnce(
      Method<v1::GetVersionRequest, v1::GetVersionResponse>{kGetVersion.path, only_reads},
      v1::GetVersionRequest(), response, {.address = peer.address()});
}

TEST(HostilePeer, ACallThatOnlyReadsIsMadeAgainWhenThePeerHungUpBeforeItAnswered) {
  int connections = 0;
  for (const std::string& bytes :
       {std::string(), SettingsFrame(), SettingsFrame() + GoAwayFrame(0, 0),
        SettingsFrame() + ResetFrame(7)}) {
    EXPECT_OK(EndOfSecondAfter(bytes, /*only_reads=*/true, connections).status);
    EXPECT_EQ(connections, 2);
    ExpectEnd(EndOfSecondAfter(bytes, /*only_reads=*/false, connections),
              absl::StatusCode::kUnavailable, /*by_peer=*/false);
    EXPECT_EQ(connections, 1);
  }
}

TEST(HostilePeer, ACallWhoseAnswerBeganIsNotMadeAgain) {
  int connections = 0;
  ExpectEnd(EndOfSecondAfter(SettingsFrame() + Head(), /*only_reads=*/true, connections),
            absl::StatusCode::kUnavailable, /*by_peer=*/false);
  EXPECT_EQ(connections, 1);
  ExpectEnd(EndOfSecondAfter(SettingsFrame() + ResetFrame(2), /*only_reads=*/true, connections),
            absl::StatusCode::kInternal, /*by_peer=*/false);
  EXPECT_EQ(connections, 1);
}

TEST(HostilePeer, ACallIsMadeTwiceAtMost) {
  int connections = 0;
  {
    RawPeer peer([&](RawPeer::Connection&) { ++connections; }, /*connections=*/3);
    v1::GetVersionResponse response;
    const Method<v1::GetVersionRequest, v1::GetVersionResponse> read{kGetVersion.path, true};
    ExpectEnd(CallOnce(read, v1::GetVersionRequest(), response, {.address = peer.address()}),
              absl::StatusCode::kUnavailable, /*by_peer=*/false);
  }
  EXPECT_EQ(connections, 2);
}

TEST(HostilePeer, AFloodOfPingsEndsAtTheDeadlineOrSooner) {
  RawPeer peer([&](RawPeer::Connection& connection) {
    const std::string ping = Frame(6, 0, 0, std::string(8, 'p'));
    while (connection.Send(ping + ping + ping + ping)) {
    }
  });
  v1::GetVersionResponse response;
  const CallEnd end = CallOnce(kGetVersion, v1::GetVersionRequest(), response,
                               {.address = peer.address(), .timeout = absl::Milliseconds(200)});
  EXPECT_FALSE(end.ok());
  EXPECT_FALSE(end.by_peer);
}

TEST(HostilePeer, APeerThatNeverSaysAWordIsNoServer) {
  RawPeer peer([](RawPeer::Connection& connection) { connection.AwaitHangUp(); });
  v1::GetVersionResponse response;
  const CallEnd end =
      CallOnce(kGetVersion, v1::GetVersionRequest(), response,
               {.address = peer.address(), .silence = {.gone_after = absl::Milliseconds(20)}});
  EXPECT_THAT(end.status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("silent")));
  EXPECT_GE(end.connected, absl::Milliseconds(20));
}

TEST(HostilePeer, ASilentPeerIsPingedAndThenGivenUp) {
  std::string heard;
  {
    RawPeer peer([&](RawPeer::Connection& connection) {
      connection.Send(SettingsFrame());
      while (connection.Receive()) {
      }
      heard = connection.received;
    });
    v1::GetVersionResponse response;
    const CallEnd end = CallOnce(
        kGetVersion, v1::GetVersionRequest(), response,
        {.address = peer.address(),
         .silence = {.ping_after = absl::Milliseconds(20), .gone_after = absl::Milliseconds(20)}});
    EXPECT_THAT(end.status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("silent")));
  }
  EXPECT_THAT(heard, HasSubstr(Frame(6, 0, 0, std::string(8, '\0'))));
}

}  // namespace
}  // namespace muster
