// The engine with its threads: what ThreadSanitizer should see. Waits on conditions, never on time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

#include "controller/engine/engine.h"
#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::MakeFacts;
using ::muster::testing::MakeSettings;
using ::muster::testing::StatusIs;

// Plays an agent: starts whatever it is told to, and lets it succeed.
class ObedientAgent final : public WorkerLink {
 public:
  ObedientAgent(Engine& engine, std::string name) : engine_(engine), name_(std::move(name)) {}

  void Send(const Assignment& assignment) override {
    MutexLock lock(mutex_);
    inbox_.push_back(assignment);
    changed_.NotifyOne();
  }
  void Close(const absl::Status&) override {}

  void Start() {
    thread_ = std::thread([this] { Run(); });
  }
  void Stop() {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      changed_.NotifyOne();
    }
    thread_.join();
  }

 private:
  void Run() {
    for (;;) {
      Assignment next;
      {
        MutexLock lock(mutex_);
        while (inbox_.empty() && !stopping_) changed_.Wait(mutex_);
        if (stopping_) return;
        next = inbox_.front();
        inbox_.erase(inbox_.begin());
      }
      engine_.Post(AssignmentAcked{.worker = name_, .incarnation = name_, .outbox_seq = next.seq},
                   [](const EventResult&) {});
      const auto* start = std::get_if<StartAssignment>(&next.body);
      if (start == nullptr) continue;
      for (const auto& rank : start->ranks) {
        for (auto kind :
             {RankReport::Kind::kStarted, RankReport::Kind::kRunning, RankReport::Kind::kExited}) {
          engine_.Post(RankReport{.worker = name_,
                                  .incarnation = name_,
                                  .event_seq = ++event_seq_,
                                  .fence = start->fence,
                                  .rank = rank.rank,
                                  .kind = kind,
                                  .succeeded = true},
                       [](const EventResult& result) { EXPECT_OK(result.status); });
        }
      }
    }
  }

  Engine& engine_;
  const std::string name_;
  uint64_t event_seq_ = 0;
  Mutex mutex_;
  CondVar changed_;
  std::vector<Assignment> inbox_ MUSTER_GUARDED_BY(mutex_);
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

TEST(EngineThreadsTest, ManyJobsFromManyThreadsAllSucceed) {
  constexpr int kSubmitters = 4;
  constexpr int kJobsEach = 10;
  testing::TempDir dir;
  RealClock clock;
  std::promise<void> all_done;
  bool told = false;
  const auto on_published = [&](const std::shared_ptr<const Snapshot>& snapshot) {
    const bool done =
        snapshot->jobs.size() == kSubmitters * kJobsEach && snapshot->active_jobs->empty();
    if (done && !std::exchange(told, true)) all_done.set_value();
  };
  auto opened = Engine::Open({.data_dir = dir.path(), .on_published = on_published}, clock);
  ASSERT_OK(opened);
  Engine& engine = **opened;
  engine.Start();

  std::vector<std::shared_ptr<ObedientAgent>> agents;
  for (const char* name : {"worker-1", "worker-2"}) {
    auto agent = std::make_shared<ObedientAgent>(engine, name);
    agent->Start();
    engine.Connect({.worker = name, .incarnation = name, .facts = MakeFacts(2)}, agent,
                   [](const EventResult& result) { EXPECT_OK(result.status); });
    agents.push_back(std::move(agent));
  }
  std::vector<std::thread> submitters;
  for (int s = 0; s < kSubmitters; ++s) {
    submitters.emplace_back([&engine, s] {
      for (int i = 0; i < kJobsEach; ++i) {
        engine.Post(SubmitJob{.settings = MakeSettings({.min_ranks = 1u + i % 3}),
                              .owner = std::to_string(s),
                              .idempotency_key = std::to_string(i)},
                    [](const EventResult& result) { EXPECT_OK(result.status); });
        engine.snapshot()->jobs.ForEach([](const Job& job) { EXPECT_GT(job.id, 0u); });
      }
    });
  }
  for (std::thread& thread : submitters) thread.join();
  all_done.get_future().wait();
  engine.snapshot()->jobs.ForEach(
      [](const Job& job) { EXPECT_EQ(job.state, JobState::kSucceeded); });
  engine.Stop();
  for (auto& agent : agents) agent->Stop();
  engine.Post(CancelJob{.job_id = 1}, [](const EventResult& result) {
    EXPECT_THAT(result.status, StatusIs(absl::StatusCode::kUnavailable));
  });
}

TEST(EngineThreadsTest, ARendezvousWaitEndsWithItsTimeout) {
  testing::TempDir dir;
  RealClock clock;
  std::promise<void> placed;
  bool told = false;
  const auto on_published = [&](const std::shared_ptr<const Snapshot>& snapshot) {
    const Job* job = snapshot->FindJob(1);
    if (job != nullptr && job->has_live_attempt() && !std::exchange(told, true)) placed.set_value();
  };
  auto opened = Engine::Open({.data_dir = dir.path(), .on_published = on_published}, clock);
  ASSERT_OK(opened);
  Engine& engine = **opened;
  engine.Start();
  std::promise<StoreAnswer> got;
  // No such gang: refused at once.
  engine.Store({.fence = {.job_id = 1, .attempt = 1}, .kind = StoreOp::Kind::kGet, .keys = {"a"}},
               [&](StoreAnswer answer) { got.set_value(std::move(answer)); });
  EXPECT_NE(got.get_future().get().error, "");

  auto agent = std::make_shared<testing::FakeLink>();
  engine.Connect({.worker = "w", .incarnation = "i", .facts = MakeFacts(1)}, agent,
                 [](const EventResult&) {});
  engine.Post(SubmitJob{.settings = MakeSettings({}), .owner = "ann"}, [](const EventResult&) {});
  placed.get_future().wait();
  std::promise<StoreAnswer> timed_out;
  engine.Store({.fence = {.job_id = 1, .attempt = 1},
                .kind = StoreOp::Kind::kGet,
                .keys = {"a"},
                .timeout = absl::Milliseconds(20)},
               [&](StoreAnswer answer) { timed_out.set_value(std::move(answer)); });
  EXPECT_TRUE(timed_out.get_future().get().timed_out);
  engine.Stop();
}

}  // namespace
}  // namespace muster::controller
