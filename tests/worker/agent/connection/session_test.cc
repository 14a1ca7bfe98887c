// What the session holds back, and what takes it along. How it connects and comes back is seen by
// muster_sim and the agent's own tests.
#include "worker/agent/connection/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/metrics/metric_names.h"
#include "common/rpc/packed_queue.h"

namespace muster::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

class TestTimers final : public Timers {
 public:
  TimerId After(absl::Duration delay, std::function<void()> task) override {
    tasks_[++last_] = {clock_.SinceBoot() + delay, std::move(task)};
    return last_;
  }
  void Cancel(TimerId id) override { tasks_.erase(id); }
  Clock& clock() const override { return clock_; }

  void Advance(absl::Duration by) {
    clock_.Advance(by);
    std::vector<std::function<void()>> due;
    for (auto it = tasks_.begin(); it != tasks_.end();) {
      if (it->second.first > clock_.SinceBoot()) {
        ++it;
        continue;
      }
      due.push_back(std::move(it->second.second));
      it = tasks_.erase(it);
    }
    for (const auto& task : due) task();
  }

 private:
  mutable SimulatedClock clock_;
  TimerId last_ = 0;
  std::map<TimerId, std::pair<absl::Duration, std::function<void()>>> tasks_;
};

class Wire final : public ControlConnection {
 public:
  explicit Wire(std::vector<v1::WorkerMessage>& sent) : sent_(sent) {}
  void Send(v1::WorkerMessage message) override { sent_.push_back(std::move(message)); }
  void Close() override {}

 private:
  std::vector<v1::WorkerMessage>& sent_;
};

class Handler final : public SessionHandler {
 public:
  void FillHello(v1::Hello&) override {}
  std::vector<v1::RankStatus> RankStatuses() override { return {}; }
  void OnSessionUp(const v1::Welcome&) override {}
  void OnSessionDown() override {}
  void OnControllerMessage(const v1::ControllerMessage&) override {}
  void OnLeaseRenewed() override {}
  void OnRefused(absl::Status status) override { refused = std::move(status); }

  absl::Status refused;
};

class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    session_.Start();
    Welcome(1);
    sent_.clear();
  }
  void TearDown() override { EXPECT_EQ(handler_.refused, expected_end_); }
  void Welcome(uint64_t term, const std::string& controller = kController) {
    v1::ControllerMessage welcome;
    welcome.mutable_welcome()->set_term(term);
    welcome.mutable_welcome()->set_controller_id(controller);
    welcome.mutable_welcome()->set_heartbeat_interval_ms(60'000);
    handlers_.on_message(welcome);
  }
  void Say(v1::RankEvent::Kind kind, bool succeeded = false) {
    v1::WorkerMessage message;
    message.mutable_rank_event()->set_kind(kind);
    message.mutable_rank_event()->set_succeeded(succeeded);
    session_.SendEvent(std::move(message));
  }
  void Acknowledge(const std::string& refusal) {
    v1::WorkerMessage message;
    message.mutable_assignment_ack()->set_refusal(refusal);
    session_.SendMessage(std::move(message));
  }
  std::vector<v1::WorkerMessage::BodyCase> Sent() const {
    std::vector<v1::WorkerMessage::BodyCase> kinds;
    for (const v1::WorkerMessage& message : sent_) kinds.push_back(message.body_case());
    return kinds;
  }

  // The connection breaks, and the session makes another one.
  void ConnectAnew() {
    handlers_.on_end(absl::UnavailableError("gone"));
    timers_.Advance(absl::Seconds(10));
    ASSERT_THAT(Sent(), Not(IsEmpty()));
    ASSERT_TRUE(sent_.back().has_hello());
  }

  static constexpr char kController[] = "controller";
  static constexpr auto kEvent = v1::WorkerMessage::kRankEvent;
  static constexpr auto kAck = v1::WorkerMessage::kAssignmentAck;
  static constexpr auto kHeartbeat = v1::WorkerMessage::kHeartbeat;

  TestTimers timers_;
  MetricFamilies families_{metric::kWorkerDroppedTotal};
  Handler handler_;
  absl::Status expected_end_;
  std::vector<v1::WorkerMessage> sent_;
  ControlHandlers handlers_;
  Session session_{timers_,
                   [this](ControlHandlers handlers) {
                     handlers_ = std::move(handlers);
                     return std::make_shared<Wire>(sent_);
                   },
                   families_, handler_, SessionOptions()};
};

TEST_F(SessionTest, NewsThatNobodyWaitsForTravelTogether) {
  Acknowledge("");
  Say(v1::RankEvent::RUNNING);
  timers_.Advance(Session::kPatience / 2);
  Say(v1::RankEvent::EXITED, /*succeeded=*/true);
  EXPECT_THAT(Sent(), IsEmpty());
  timers_.Advance(Session::kPatience / 2);
  EXPECT_THAT(Sent(), ElementsAre(kAck, kEvent, kEvent));
  // The next ones have a time of their own.
  Say(v1::RankEvent::RUNNING);
  EXPECT_EQ(sent_.size(), 3u);
  timers_.Advance(Session::kPatience);
  EXPECT_EQ(sent_.size(), 4u);
}

TEST_F(SessionTest, WhatSomebodyWaitsForGoesAtOnceBehindWhatWasHeldBack) {
  Say(v1::RankEvent::RUNNING);
  Say(v1::RankEvent::EXITED, /*succeeded=*/false);
  EXPECT_THAT(Sent(), ElementsAre(kEvent, kEvent));
  EXPECT_EQ(sent_[0].rank_event().kind(), v1::RankEvent::RUNNING);
  Acknowledge("no such slot");
  EXPECT_THAT(Sent(), ElementsAre(kEvent, kEvent, kAck));
}

TEST_F(SessionTest, AHeartbeatDoesNotOvertakeWhatItFollowsFrom) {
  Say(v1::RankEvent::EXITED, /*succeeded=*/true);
  session_.HeartbeatNow();
  EXPECT_THAT(Sent(), ElementsAre(kEvent, kHeartbeat));
}

TEST_F(SessionTest, AMessageFullOfNewsGoesAtOnce) {
  for (int i = 1; i < kMostPacked; ++i) Say(v1::RankEvent::RUNNING);
  EXPECT_THAT(Sent(), IsEmpty());
  Say(v1::RankEvent::RUNNING);
  EXPECT_EQ(sent_.size(), static_cast<size_t>(kMostPacked));
}

TEST_F(SessionTest, WhatWasHeldBackWhenTheSessionBrokeComesOnceWithTheNextOne) {
  Say(v1::RankEvent::RUNNING);
  Acknowledge("");
  handlers_.on_end(absl::UnavailableError("gone"));
  timers_.Advance(absl::Seconds(10));  // it connects again
  sent_.clear();
  Welcome(2);
  timers_.Advance(Session::kPatience);
  // The assignment comes again, unless it was heard of.
  EXPECT_THAT(Sent(), ElementsAre(kEvent, kHeartbeat));
}

TEST_F(SessionTest, ALowerTermOfTheSameControllerIsNotFollowed) {
  ConnectAnew();
  Welcome(5);
  ConnectAnew();
  EXPECT_EQ(sent_.back().hello().last_controller(), kController);
  EXPECT_EQ(sent_.back().hello().last_term(), 5u);
  Welcome(4);
  EXPECT_FALSE(session_.up());
  EXPECT_EQ(session_.term(), 5u);
}

// Its numbers of assignments, its fences and its ranks are of the former's jobs.
TEST_F(SessionTest, ALifeThatHasServedAControllerFollowsNoOther) {
  ConnectAnew();
  Welcome(9, "another");
  EXPECT_FALSE(session_.up());
  EXPECT_EQ(session_.controller(), (KnownController{.id = kController, .term = 1}));
  EXPECT_TRUE(absl::IsFailedPrecondition(handler_.refused)) << handler_.refused;
  expected_end_ = handler_.refused;
  const size_t said = sent_.size();
  timers_.Advance(absl::Minutes(1));
  EXPECT_EQ(sent_.size(), said) << "it makes no further try";
}

TEST_F(SessionTest, TheNextLifeFollowsAnotherControllerWhateverItsTerm) {
  std::vector<v1::WorkerMessage> sent;
  ControlHandlers handlers;
  Session next{timers_,
               [&](ControlHandlers to) {
                 handlers = std::move(to);
                 return std::make_shared<Wire>(sent);
               },
               families_, handler_, SessionOptions{.controller = {.id = kController, .term = 7}}};
  next.Start();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].hello().last_controller(), kController);
  EXPECT_EQ(sent[0].hello().last_term(), 7u);
  v1::ControllerMessage message;
  message.mutable_welcome()->set_term(2);
  message.mutable_welcome()->set_controller_id("another");
  handlers.on_message(message);
  EXPECT_TRUE(next.up());
  EXPECT_EQ(next.controller(), (KnownController{.id = "another", .term = 2}));
}

// The stream gives up when more lies in its queue; nothing of it would ever have left.
TEST_F(SessionTest, AnyNumberOfEventsFindsItsWayInParts) {
  handlers_.on_end(absl::UnavailableError("gone"));
  const uint64_t all = 3 * Session::kMaxUnanswered + 7;
  for (uint64_t i = 0; i < all; ++i) Say(v1::RankEvent::EXITED);
  timers_.Advance(absl::Seconds(10));
  sent_.clear();
  Welcome(1);
  uint64_t last = 0;
  while (last < all) {
    uint64_t events = 0;
    for (const v1::WorkerMessage& message : std::exchange(sent_, {})) {
      if (!message.has_rank_event()) continue;
      EXPECT_EQ(message.event_seq(), ++last);
      ++events;
    }
    ASSERT_GT(events, 0u);
    ASSERT_LE(events, Session::kMaxUnanswered);
    v1::ControllerMessage ack;
    ack.mutable_event_ack()->set_event_seq(last);
    handlers_.on_message(ack);
  }
  EXPECT_TRUE(session_.EventsAcknowledged());
}

TEST_F(SessionTest, WhatAJobSaidIsReadableToTheOtherSide) {
  v1::WorkerMessage message;
  message.mutable_rank_event()->set_kind(v1::RankEvent::EXITED);
  message.mutable_rank_event()->set_message("FATAL: \xff");
  session_.SendEvent(std::move(message));
  ASSERT_THAT(Sent(), ElementsAre(kEvent));
  EXPECT_EQ(sent_[0].rank_event().message(), "FATAL: ?");
}

}  // namespace
}  // namespace muster::worker
