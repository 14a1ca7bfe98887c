#include "worker/trainer/rank/link_client.h"

#include <signal.h>
#include <sys/socket.h>

#include <thread>
#include <variant>

#include "common/base/version.h"
#include "tests/support/status_matchers.h"
#include "worker/link/line_buffer.h"
#include "worker/trainer/rank/link_adapters.h"

namespace muster::worker {
namespace {

using muster::testing::StatusIs;
using ::testing::HasSubstr;

// The agent's end of the socket, read and written by the test.
class FakeAgent {
 public:
  FakeAgent() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    ours_.Reset(fds[0]);
    theirs_.Reset(fds[1]);
  }

  std::unique_ptr<LinkClient> Connect() {
    auto link = LinkClient::Start(std::move(theirs_), 3);
    EXPECT_OK(link);
    return *std::move(link);
  }

  // The next line of type T; others before it are dropped.
  template <typename T>
  T Await() {
    while (true) {
      while (const auto text = lines_.Next()) {
        auto line = DecodeRankLine(*text);
        EXPECT_OK(line);
        if (T* wanted = std::get_if<T>(&*line)) return *wanted;
      }
      char bytes[4096];
      const ssize_t n = ::read(ours_.get(), bytes, sizeof(bytes));
      if (n <= 0) {
        ADD_FAILURE() << "the rank closed the link";
        return T();
      }
      EXPECT_OK(lines_.Append(absl::string_view(bytes, static_cast<size_t>(n))));
    }
  }

  void Send(const AgentLine& line) {
    const std::string text = Encode(line);
    EXPECT_EQ(::send(ours_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  void SendRaw(const std::string& text) {
    EXPECT_EQ(::send(ours_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  void Close() { ours_.Reset(); }

 private:
  UniqueFd ours_, theirs_;
  LineBuffer lines_;
};

TEST(LinkClient, SaysHelloFirst) {
  FakeAgent agent;
  const auto link = agent.Connect();
  const HelloLine hello = agent.Await<HelloLine>();
  EXPECT_EQ(hello.rank, 3u);
  EXPECT_EQ(hello.protocol_version, kProtocolVersion);
}

TEST(LinkKeyValue, CarriesBytesBothWaysAndNamesItsFailures) {
  FakeAgent agent;
  const auto link = agent.Connect();
  LinkKeyValue store(*link);
  std::thread answers([&agent] {
    const StoreLine set = agent.Await<StoreLine>();
    EXPECT_EQ(set.value, std::string("a\0b\n", 4));
    agent.Send(StoreReplyLine{.id = set.id, .found = true});
    const StoreLine get = agent.Await<StoreLine>();
    EXPECT_EQ(get.timeout_ms, 1500);
    agent.Send(StoreReplyLine{.id = get.id, .found = true, .value = std::string("\0x", 2)});
    const StoreLine add = agent.Await<StoreLine>();
    EXPECT_EQ(add.value, "-2");
    agent.Send(StoreReplyLine{.id = add.id, .found = true, .value = "5"});
    agent.Send(StoreReplyLine{.id = agent.Await<StoreLine>().id, .timed_out = true});
    agent.Send(StoreReplyLine{.id = agent.Await<StoreLine>().id, .error = "fenced"});
    agent.Send(StoreReplyLine{.id = agent.Await<StoreLine>().id, .found = true, .value = "many"});
  });
  EXPECT_OK(store.Set("k", std::string("a\0b\n", 4)));
  EXPECT_EQ(*store.Get("k", absl::Milliseconds(1500)), std::string("\0x", 2));
  EXPECT_EQ(*store.Add("n", -2), 5);
  EXPECT_THAT(store.Wait({"k"}, absl::Seconds(1)), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(store.Check({"k"}), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("fenced")));
  EXPECT_THAT(store.Count(), StatusIs(absl::StatusCode::kInvalidArgument));
  answers.join();
}

TEST(LinkClient, AWishToStopEndsTheRendezvousButNotASave) {
  FakeAgent agent;
  const auto link = agent.Connect();
  LinkKeyValue store(*link);
  LinkHost host(*link);
  EXPECT_FALSE(host.requested_stop().stop);
  agent.Send(StopLine{.save = true, .reason = "draining"});
  EXPECT_THAT(store.Get("never", absl::Hours(1)),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("draining")));
  EXPECT_TRUE(host.requested_stop().stop);
  EXPECT_TRUE(host.requested_stop().save);

  LinkPublisher publisher(*link);
  std::thread answers([&agent] {
    agent.Await<CheckpointLine>();
    agent.Send(PublishLine{.step = 7});
    EXPECT_EQ(agent.Await<CheckpointLine>().kind, CheckpointLine::Kind::kCommit);
    agent.Send(CommittedLine{.step = 7});
    agent.Await<CheckpointLine>();
    agent.Send(CommittedLine{.step = 8, .error = "fenced"});
  });
  CheckpointNews news;
  news.step = 7;
  EXPECT_OK(publisher.AwaitPublish(news));
  EXPECT_OK(publisher.AwaitCommitted(news));
  news.step = 8;
  EXPECT_THAT(publisher.AwaitCommitted(news),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("fenced")));
  answers.join();
}

TEST(LinkClient, MetricsAreNumberedAndTheirAcksAwaited) {
  FakeAgent agent;
  const auto link = agent.Connect();
  LinkHost host(*link);
  host.Metrics(10, {{"loss", 1.5}});
  host.Metrics(20, {{"loss", 1.25}});
  EXPECT_EQ(agent.Await<MetricsLine>().seq, 1u);
  const MetricsLine second = agent.Await<MetricsLine>();
  EXPECT_EQ(second.seq, 2u);
  EXPECT_EQ(second.values.at("loss"), 1.25);
  EXPECT_THAT(link->AwaitAcks(absl::ZeroDuration()), StatusIs(absl::StatusCode::kDeadlineExceeded));
  agent.Send(AckLine{.seq = 2});
  EXPECT_OK(link->AwaitAcks(absl::Minutes(1)));
}

TEST(LinkClient, HowMuchMemoryIsNeededReachesTheAgent) {
  FakeAgent agent;
  const auto link = agent.Connect();
  LinkHost host(*link);
  host.MemoryEstimated("the run was estimated to need 2 GiB");
  EXPECT_EQ(agent.Await<MemoryLine>().need, "the run was estimated to need 2 GiB");
}

TEST(LinkClient, NumbersThatTheAgentCouldNotTakeComeAgainInTheirOrder) {
  FakeAgent agent;
  const auto link = agent.Connect();
  LinkHost host(*link);
  for (int64_t step = 1; step <= 3; ++step) host.Metrics(step, {{"loss", 1.0}});
  for (uint64_t seq = 1; seq <= 3; ++seq) EXPECT_EQ(agent.Await<MetricsLine>().seq, seq);
  agent.Send(AckLine{.seq = 1, .again = true});  // the disk refused the second one
  const MetricsLine second = agent.Await<MetricsLine>();
  EXPECT_EQ(second.seq, 2u);
  EXPECT_EQ(second.step, 2);
  EXPECT_EQ(second.lost, 0u);
  EXPECT_EQ(agent.Await<MetricsLine>().seq, 3u);
  agent.Send(AckLine{.seq = 3});
  EXPECT_OK(link->AwaitAcks(absl::Minutes(1)));
}

TEST(LinkClient, AnAgentThatDoesNotReadHoldsUpNobodyAndLearnsOfWhatWasGivenUp) {
  FakeAgent agent;
  const auto link = agent.Connect();
  LinkHost host(*link);
  const std::map<std::string, double> values = {{std::string(2000, 'v'), 1.0}};
  constexpr uint64_t kSent = LinkClient::kMostKept + 500;  // far more than a socket takes
  for (uint64_t i = 1; i <= kSent; ++i) {
    host.Progress("train", static_cast<int64_t>(i), kSent, 0);
    host.Metrics(static_cast<int64_t>(i), values);
  }
  EXPECT_OK(link->Send(CheckpointLine{.step = 5}));
  uint64_t last = 0, given_up = 0;
  while (last < kSent) {
    const MetricsLine line = agent.Await<MetricsLine>();
    ASSERT_GT(line.seq, last);
    EXPECT_GE(line.lost, line.seq - last - 1);
    EXPECT_EQ(line.step, static_cast<int64_t>(line.seq));
    given_up += line.seq - last - 1;
    last = line.seq;
  }
  EXPECT_GT(given_up, 0u);
  EXPECT_LE(given_up, 500u);
  agent.Send(AckLine{.seq = kSent});
  EXPECT_OK(link->AwaitAcks(absl::Minutes(1)));
}

TEST(LinkClient, OfWhereItIsOnlyTheNewestWaits) {
  FakeAgent agent;
  const auto link = agent.Connect();
  LinkHost host(*link);
  for (int64_t step = 1; step <= 100'000; ++step) host.Progress("train", step, 100'000, 0);
  int64_t lines = 0, step = 0;
  for (; step < 100'000; ++lines) step = agent.Await<ProgressLine>().step;
  EXPECT_LT(lines, 50'000);
  host.KeepAlive();
  host.KeepAlive();
  EXPECT_EQ(agent.Await<ProgressLine>().beats, 1u);
  const ProgressLine again = agent.Await<ProgressLine>();
  EXPECT_EQ(again.beats, 2u);
  EXPECT_EQ(again.step, 100'000);
}

TEST(LinkClient, TheLastWordsReachAnAgentThatReadsLate) {
  FakeAgent agent;
  auto link = agent.Connect();
  std::thread leaves([&link] {
    ASSERT_OK(link->Send(ResultLine{.succeeded = true, .message = std::string(3 << 20, 'm')}));
    link.reset();
  });
  EXPECT_EQ(agent.Await<ResultLine>().message.size(), size_t{3} << 20);
  leaves.join();
}

TEST(LinkClient, ASupersededCheckpointIsWaitedForNoMore) {
  FakeAgent agent;
  const auto link = agent.Connect();
  std::thread later([&link] { link->Supersede(4); });
  EXPECT_THAT(link->AwaitPublish(4), StatusIs(absl::StatusCode::kAborted));
  later.join();
  EXPECT_THAT(link->AwaitCommitted(4), StatusIs(absl::StatusCode::kAborted));
  agent.Send(PublishLine{.step = 5});
  EXPECT_OK(link->AwaitPublish(5));
}

TEST(LinkClient, AnAgentThatIsGoneEndsEveryWaitAndStopsTheRankWithoutASave) {
  FakeAgent agent;
  const auto link = agent.Connect();
  agent.Close();
  EXPECT_THAT(link->AwaitCommitted(1), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(link->AwaitPublish(1), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(link->stop().wanted);
  EXPECT_FALSE(link->stop().save);
  EXPECT_THAT(link->Send(ProgressLine()), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(LinkClient, CancelEndsTheWaitsOfARankThatLeaves) {
  FakeAgent agent;
  const auto link = agent.Connect();
  std::thread canceller([&link] { link->Cancel(); });
  EXPECT_THAT(link->AwaitPublish(1), StatusIs(absl::StatusCode::kCancelled));
  canceller.join();
}

TEST(LinkClient, SkipsUnknownAndMalformedLines) {
  FakeAgent agent;
  const auto link = agent.Connect();
  agent.SendRaw("{\"type\":\"from_the_future\"}\nnot json\n");
  agent.Send(PublishLine{.step = 4});
  EXPECT_OK(link->AwaitPublish(4));
}

// In a process of its own: here other tests' threads do not block the signal.
void ExitZeroIfSigtermStops() {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &term, nullptr);
  FakeAgent agent;
  const auto link = agent.Connect();
  LinkKeyValue store(*link);
  ::kill(::getpid(), SIGTERM);
  const absl::Status status = store.Get("never", absl::Hours(1)).status();
  const bool as_told = absl::IsCancelled(status) && link->stop().wanted && !link->stop().save;
  ::_exit(as_told ? 0 : 1);
}

TEST(LinkClientDeathTest, SigtermIsAWishToStopWithoutASave) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(ExitZeroIfSigtermStops(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace muster::worker
