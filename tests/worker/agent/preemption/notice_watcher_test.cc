#include "worker/agent/preemption/notice_watcher.h"

#include <prometheus/text_serializer.h>
#include <sys/eventfd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "common/metrics/metric_names.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/worker/agent/preemption/fake_cloud.h"

namespace muster::worker {
namespace {

using ::muster::testing::FakeCloud;
using ::muster::testing::ScriptedServer;
using ::muster::testing::ServerRequest;
using ::muster::testing::StatusIs;
using ::muster::testing::WaitUntil;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kHost[] = "vm-7";
constexpr absl::Duration kWatchPatience = absl::Minutes(1);

class NoticeWatcherTest : public ::testing::Test {
 protected:
  void Watch(const std::string& source) {
    NoticeWatcherOptions options;
    options.source = source;
    options.url = cloud_.Url(kHost);
    options.period = absl::Milliseconds(20);
    options.first_backoff = absl::Milliseconds(20);
    options.max_backoff = absl::Milliseconds(100);
    auto watcher = NoticeWatcher::Create(options, clock_, families_, mailbox_,
                                         [this](const NoticeWord& word) { said_.push_back(word); });
    ASSERT_OK(watcher);
    watcher_ = *std::move(watcher);
    watcher_->Start();
  }
  // Runs what was left in the mailbox, as the loop does, until so much was said.
  bool Await(size_t words) {
    return WaitUntil(kWatchPatience, [&] {
      for (Mailbox::Task& task : mailbox_->TakeAll()) task();
      return said_.size() >= words;
    });
  }
  std::string Page() { return prometheus::TextSerializer().Serialize(families_.Collect()); }

  RealClock clock_;
  FakeCloud cloud_;
  MetricFamilies families_{metric::kWorkerDroppedTotal};
  std::shared_ptr<Mailbox> mailbox_ =
      std::make_shared<Mailbox>(UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  std::vector<NoticeWord> said_;
  std::unique_ptr<NoticeWatcher> watcher_;
};

TEST_F(NoticeWatcherTest, WithoutASourceThereIsNone) {
  auto watcher = NoticeWatcher::Create({}, clock_, families_, mailbox_, [](const NoticeWord&) {});
  ASSERT_OK(watcher);
  EXPECT_EQ(*watcher, nullptr);
  EXPECT_THAT(NoticeWatcher::Create({.source = "moon"}, clock_, families_, mailbox_,
                                    [](const NoticeWord&) {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(NoticeWatcherTest, TheFirstWordComesAtOnceAndANoticeOnce) {
  Watch(kAwsSource);
  ASSERT_TRUE(Await(1));
  EXPECT_EQ(said_[0].change, NoticeChange::kNone);
  cloud_.Interrupt(kHost, absl::Seconds(100));
  ASSERT_TRUE(Await(2));
  EXPECT_EQ(said_[1].change, NoticeChange::kGiven);
  const absl::Duration left = said_[1].deadline - clock_.SinceBoot();
  EXPECT_GT(left, absl::Seconds(90));
  EXPECT_LE(left, absl::Seconds(100));
  const size_t asked = cloud_.Count("instance-action");
  ASSERT_TRUE(
      WaitUntil(kWatchPatience, [&] { return cloud_.Count("instance-action") > asked + 10; }));
  for (Mailbox::Task& task : mailbox_->TakeAll()) task();
  EXPECT_EQ(said_.size(), 2u) << "said once";
  EXPECT_THAT(Page(), HasSubstr("muster_worker_preemption_notices_total{source=\"aws\"} 1\n"));
  EXPECT_THAT(Page(), HasSubstr("muster_worker_preemption_source_up{source=\"aws\"} 1\n"));
  EXPECT_THAT(Page(), HasSubstr("muster_worker_preemption_pending 1\n"));
}

TEST_F(NoticeWatcherTest, AMachineThatStandsUnderNoticeSaysSoInItsFirstWord) {
  cloud_.SetPreempted(kHost, true);
  Watch(kGcpSource);
  ASSERT_TRUE(Await(1));
  EXPECT_EQ(said_[0].change, NoticeChange::kGiven);
}

TEST_F(NoticeWatcherTest, AServiceThatFailsForAWhileStillTellsTheNoticeInTheEnd) {
  cloud_.SetTrouble([](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(503, {}, "");
    return true;
  });
  Watch(kAwsSource);
  ASSERT_TRUE(Await(1));
  EXPECT_EQ(said_[0].change, NoticeChange::kNone) << "the agent does not wait for it";
  EXPECT_THAT(Page(), HasSubstr("muster_worker_preemption_source_up{source=\"aws\"} 0\n"));
  const size_t asked = cloud_.requests().size();
  ASSERT_TRUE(WaitUntil(kWatchPatience, [&] { return cloud_.requests().size() > asked + 5; }));
  cloud_.Interrupt(kHost, absl::Seconds(60));
  cloud_.SetTrouble(nullptr);
  ASSERT_TRUE(Await(2));
  EXPECT_EQ(said_[1].change, NoticeChange::kGiven);
}

TEST_F(NoticeWatcherTest, ANoticeIsWithdrawnWhenItIsGone) {
  cloud_.Interrupt(kHost, absl::Seconds(60));
  Watch(kAwsSource);
  ASSERT_TRUE(Await(1));
  cloud_.Withdraw(kHost);
  ASSERT_TRUE(Await(2));
  EXPECT_EQ(said_[1].change, NoticeChange::kWithdrawn);
  EXPECT_THAT(Page(), HasSubstr("muster_worker_preemption_pending 0\n"));
}

TEST_F(NoticeWatcherTest, AServiceThatGoesAwayWithdrawsNothing) {
  cloud_.Interrupt(kHost, absl::Seconds(60));
  Watch(kAwsSource);
  ASSERT_TRUE(Await(1));
  cloud_.SetTrouble([](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reset();
    return true;
  });
  ASSERT_TRUE(WaitUntil(kWatchPatience, [&] {
    return Page().find("source_up{source=\"aws\"} 0") != std::string::npos;
  }));
  const absl::Duration began = clock_.SinceBoot();
  ASSERT_TRUE(WaitUntil(kWatchPatience,
                        [&] { return clock_.SinceBoot() - began > kWithdrawnAfter * 1.2; }));
  for (Mailbox::Task& task : mailbox_->TakeAll()) task();
  EXPECT_EQ(said_.size(), 1u);
}

TEST_F(NoticeWatcherTest, AnApprovalIsToldUntilItIsTaken) {
  cloud_.Schedule("event-1", "Preempt", {kHost}, absl::Seconds(30));
  Watch(kAzureSource);
  ASSERT_TRUE(Await(1));
  std::atomic<int> refused = 0;
  cloud_.SetTrouble([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    if (request.method != "POST" || refused == 2) return false;
    ++refused;
    answer.Reply(500, {}, "");
    return true;
  });
  watcher_->Approve(said_[0].notice.id);
  ASSERT_TRUE(WaitUntil(kWatchPatience, [&] { return !cloud_.approved().empty(); }));
  EXPECT_EQ(refused, 2);
  const size_t asked = cloud_.Count("scheduledevents");
  ASSERT_TRUE(
      WaitUntil(kWatchPatience, [&] { return cloud_.Count("scheduledevents") > asked + 3; }));
  EXPECT_THAT(cloud_.approved(), ElementsAre("event-1"));
}

TEST_F(NoticeWatcherTest, ASilentServiceDoesNotHoldUpTheEnd) {
  cloud_.SetTrouble([](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Stall();
    return true;
  });
  Watch(kAzureSource);
  ASSERT_TRUE(WaitUntil(kWatchPatience, [&] { return !cloud_.requests().empty(); }));
  const absl::Duration began = clock_.SinceBoot();
  watcher_.reset();
  EXPECT_LT(clock_.SinceBoot() - began, absl::Seconds(10));
}

}  // namespace
}  // namespace muster::worker
