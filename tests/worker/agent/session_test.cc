// What the session holds back, and what takes it along. How it connects and comes back is seen by
// muster_sim and the agent's own tests.
#include "worker/agent/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/metrics/metric_names.h"
#include "common/rpc/packed_queue.h"

namespace muster::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
  void OnRefused(absl::Status status) override { ADD_FAILURE() << status; }
};

class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    session_.Start();
    Welcome(1);
    sent_.clear();
  }
  void Welcome(uint64_t term) {
    v1::ControllerMessage welcome;
    welcome.mutable_welcome()->set_term(term);
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

  static constexpr auto kEvent = v1::WorkerMessage::kRankEvent;
  static constexpr auto kAck = v1::WorkerMessage::kAssignmentAck;
  static constexpr auto kHeartbeat = v1::WorkerMessage::kHeartbeat;

  TestTimers timers_;
  Registry registry_{WorkerMetrics(), metric::kWorkerDroppedTotal};
  Handler handler_;
  std::vector<v1::WorkerMessage> sent_;
  ControlHandlers handlers_;
  Session session_{timers_,
                   [this](ControlHandlers handlers) {
                     handlers_ = std::move(handlers);
                     return std::make_shared<Wire>(sent_);
                   },
                   registry_, handler_, SessionOptions()};
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

}  // namespace
}  // namespace muster::worker
