#include "worker/agent/connection/heartbeat_keeper.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/subprocess.h"

namespace muster::worker {
namespace {

using ::muster::testing::WaitUntil;

constexpr absl::Duration kPatience = absl::Minutes(1);

class Wire final : public ControlConnection {
 public:
  void Send(v1::WorkerMessage) override { ADD_FAILURE() << "that is the loop's"; }
  void SendFromAnyThread(v1::WorkerMessage message) override {
    MutexLock lock(mutex_);
    sent_.push_back(std::move(message));
  }
  void Close() override {}
  std::vector<v1::WorkerMessage> sent() {
    MutexLock lock(mutex_);
    return sent_;
  }

 private:
  Mutex mutex_;
  std::vector<v1::WorkerMessage> sent_ MUSTER_GUARDED_BY(mutex_);
};

v1::WorkerMessage Beat(uint64_t seq) {
  v1::WorkerMessage message;
  message.mutable_heartbeat()->set_seq(seq);
  return message;
}

class HeartbeatKeeperTest : public ::testing::Test {
 protected:
  RealClock clock_;
  const std::shared_ptr<Wire> wire_ = std::make_shared<Wire>();
};

TEST_F(HeartbeatKeeperTest, ALoopThatStandsStillIsStoodInFor) {
  HeartbeatKeeper keeper(clock_);
  keeper.OnBeat(wire_, Beat(7), absl::Milliseconds(20));
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return wire_->sent().size() >= 3; }));
  for (const v1::WorkerMessage& message : wire_->sent()) {
    EXPECT_EQ(message.heartbeat().seq(), 7u) << "so that the agent's own lease does not grow";
  }
}

TEST_F(HeartbeatKeeperTest, ALoopThatBeatsIsLeftAlone) {
  HeartbeatKeeper keeper(clock_);
  keeper.OnBeat(wire_, Beat(1), absl::Hours(1));
  keeper.OnBeat(wire_, Beat(2), absl::Hours(1));
  keeper.Rest();
  keeper.OnBeat(wire_, Beat(3), absl::Milliseconds(1));
  keeper.Rest();
  // A connection that is down is let go of; the thread may be in a send that it began before.
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return wire_.use_count() == 1; }));
  const size_t before = wire_->sent().size();
  EXPECT_FALSE(WaitUntil(absl::Milliseconds(50), [&] { return wire_->sent().size() > before; }));
}

TEST_F(HeartbeatKeeperTest, AnAgentThatNeverComesBackIsGivenUpInTheEnd) {
  constexpr absl::Duration kLongestStall = absl::Minutes(10);
  SimulatedClock clock;
  HeartbeatKeeper keeper(clock, kLongestStall);
  keeper.OnBeat(wire_, Beat(1), absl::Milliseconds(5));
  clock.Advance(kLongestStall);
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return wire_->sent().size() >= 3; }));
  clock.Advance(absl::Seconds(1));
  // One more at most, that it had begun before.
  const size_t last = wire_->sent().size() + 1;
  EXPECT_FALSE(WaitUntil(absl::Milliseconds(100), [&] { return wire_->sent().size() > last; }));
}

}  // namespace
}  // namespace muster::worker
