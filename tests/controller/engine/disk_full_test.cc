// A full disk under the controller: submits are refused, nothing is lost, and it works again once
// there is room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "controller/engine/applier.h"
#include "tests/support/controller_fixture.h"
#include "tests/support/full_disk.h"
#include "tests/support/model_invariants.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::MakeSettings;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

class DiskFullTest : public ::muster::testing::ControllerFixture {
 protected:
  // Fills the database until a submit does not fit; returns how many did.
  uint64_t FillUp() {
    const std::string ballast(200'000, 'x');
    for (uint64_t jobs = 0;; ++jobs) {
      const EventResult result =
          TrySubmit({.min_ranks = 9, .wait_for_capacity = true, .spec = ballast});
      if (result.status.ok()) continue;
      EXPECT_THAT(result.status,
                  StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(dir_.path())));
      return jobs;
    }
  }
};

TEST_F(DiskFullTest, SubmitsAreRefusedAndNothingIsLost) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t running = Submit();
  const Fence fence = StartRanks(one).fence;
  max_database_bytes_ = 1 << 20;
  Restart();
  Connect(one);
  const uint64_t fitted = FillUp();
  EXPECT_GT(fitted, 0u);
  EXPECT_EQ(snapshot()->jobs.size(), fitted + 1);
  // The running job goes on: heartbeats need no room.
  one.alive[0].step = 12;
  EXPECT_OK(Beat(one).status);
  EXPECT_EQ(job(running).progress.step, 12);
  EXPECT_EQ(state(running), JobState::kRunning);

  // There is room again.
  max_database_bytes_ = 0;
  Restart();
  EXPECT_EQ(snapshot()->jobs.size(), fitted + 1);
  Connect(one);
  ReportExit(one, fence, 0, {.succeeded = true});
  EXPECT_EQ(state(running), JobState::kSucceeded);
  EXPECT_OK(TrySubmit({}).status);
}

// A disk on which nothing can be written for many minutes; above, one file may not grow.
class FullForMinutesTest : public ::muster::testing::ControllerFixture {
 protected:
  static constexpr absl::Duration kBeat = absl::Seconds(3);

  // What is posted without anybody waiting for the answer.
  std::shared_ptr<std::optional<EventResult>> Post(Event event) {
    auto answer = std::make_shared<std::optional<EventResult>>();
    engine_->Post(std::move(event), [answer](const EventResult& result) { *answer = result; });
    engine_->RunUntilIdle();
    return answer;
  }
  // The agents' heartbeats for so long, each with another step.
  void BeatFor(absl::Duration time, const std::vector<Agent*>& agents) {
    for (absl::Duration beaten; beaten < time; beaten += kBeat) {
      Advance(kBeat);
      for (Agent* agent : agents) {
        for (RankStatus& status : agent->alive) {
          ++status.step;
          status.phase = "train";
        }
        ASSERT_OK(Beat(*agent).status);
        ASSERT_OK(agent->link->closed);
      }
    }
  }

  ::muster::testing::FullDisk disk_;
};

TEST_F(FullForMinutesTest, RunningJobsRunOnAndNoLeaseIsLost) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  const uint64_t runs_on = Submit();
  const uint64_t ends = Submit();
  const Fence first = StartRanks(one).fence;
  const Fence second = StartRanks(two).fence;
  disk_.SetFull(true);
  BeatFor(absl::Minutes(10), {&one, &two});
  EXPECT_GT(disk_.refused(), 0);
  EXPECT_EQ(job(runs_on).progress.step, one.alive[0].step);

  // What must be stored waits, and nothing behind it is taken for a gap.
  const auto commit = Post(MakeCommit(one, first, 50));
  const auto again = Post(MakeCommit(one, first, 60));
  RankReport exit = MakeReport(two, second, 0, RankReport::Kind::kExited);
  exit.succeeded = true;
  two.alive.clear();
  const auto exited = Post(exit);
  EXPECT_THAT(TrySubmit({}).status, StatusIs(absl::StatusCode::kResourceExhausted));
  // An agent that loses its connection comes back, and says again what was not answered.
  ASSERT_OK(Connect(two).status);
  EXPECT_THAT(exited->value().status, StatusIs(absl::StatusCode::kUnavailable));
  const auto repeated = Post(exit);
  BeatFor(absl::Minutes(10), {&one, &two});
  EXPECT_FALSE(commit->has_value());
  EXPECT_FALSE(repeated->has_value());
  for (const char* name : {"worker-1", "worker-2"}) {
    EXPECT_EQ(worker(name).presence(), Presence::kReady);
    EXPECT_TRUE(worker(name).pulse.connected);
  }
  EXPECT_EQ(state(runs_on), JobState::kRunning);
  EXPECT_EQ(job(runs_on).attempt, 1u);
  EXPECT_EQ(job(runs_on).past.size(), 0u);

  disk_.SetFull(false);
  BeatFor(absl::Seconds(3), {&one, &two});
  ASSERT_TRUE(commit->has_value() && again->has_value() && repeated->has_value());
  EXPECT_OK((*commit)->status);
  EXPECT_OK((*again)->status);
  EXPECT_OK((*repeated)->status);
  EXPECT_EQ(job(runs_on).checkpoints.size(), 2u);
  EXPECT_EQ(state(ends), JobState::kSucceeded);
  Restart();
  EXPECT_EQ(state(ends), JobState::kSucceeded);
  EXPECT_EQ(state(runs_on), JobState::kRunning);
  EXPECT_EQ(::testing::PrintToString(::muster::testing::ModelFaults(*snapshot())), "{}");
}

TEST_F(FullForMinutesTest, AgentsComeAndComeBack) {
  Agent old = ConnectNew("old", 2);
  Advance(absl::Minutes(2));  // lost
  ASSERT_EQ(worker("old").presence(), Presence::kLost);
  disk_.SetFull(true);
  ASSERT_OK(Connect(old).status);
  Agent fresh = ConnectNew("fresh", 1);
  BeatFor(absl::Minutes(5), {&old, &fresh});
  EXPECT_EQ(worker("old").presence(), Presence::kReady);
  EXPECT_EQ(worker("fresh").presence(), Presence::kReady);

  // Their rows are stored with the first change that is.
  disk_.SetFull(false);
  BeatFor(absl::Seconds(3), {&old, &fresh});
  const uint64_t id = Submit({.min_ranks = 3});
  EXPECT_EQ(state(id), JobState::kStarting);
  Restart();
  EXPECT_EQ(worker("old").presence(), Presence::kSuspect);
  EXPECT_EQ(worker("fresh").facts.slots.size(), 1u);
}

TEST_F(FullForMinutesTest, SlotsThatAHelloFreedAreReleasedOnceThereIsRoom) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.max_restarts = 0});
  StartRanks(one);
  Advance(absl::Minutes(2));  // lost, with its rank
  ASSERT_EQ(state(id), JobState::kFailed);
  ASSERT_FALSE(worker("worker-1").pulse.holders.empty());
  one.alive.clear();
  disk_.SetFull(true);
  ASSERT_OK(Connect(one).status);
  BeatFor(absl::Minutes(1), {&one});
  EXPECT_FALSE(worker("worker-1").pulse.holders.empty());
  disk_.SetFull(false);
  BeatFor(absl::Seconds(3), {&one});
  EXPECT_TRUE(worker("worker-1").pulse.holders.empty());
  EXPECT_EQ(::testing::PrintToString(::muster::testing::ModelFaults(*snapshot())), "{}");
}

TEST_F(FullForMinutesTest, MoreReportsThanMayWaitAreRefusedAndHeartbeatsGoOn) {
  Agent one = ConnectNew("worker-1", 1);
  Submit();
  const Fence fence = StartRanks(one).fence;
  disk_.SetFull(true);
  std::vector<std::shared_ptr<std::optional<EventResult>>> answers;
  for (size_t i = 0; i < Applier::kMaxParkedOfOne + 2; ++i) {
    answers.push_back(Post(MakeCommit(one, fence, static_cast<int64_t>(i + 1))));
  }
  EXPECT_FALSE(answers[Applier::kMaxParkedOfOne - 1]->has_value());
  ASSERT_TRUE(answers[Applier::kMaxParkedOfOne]->has_value());
  EXPECT_THAT(answers[Applier::kMaxParkedOfOne]->value().status,
              StatusIs(absl::StatusCode::kResourceExhausted));
  BeatFor(absl::Minutes(1), {&one});
  disk_.SetFull(false);
  BeatFor(absl::Seconds(3), {&one});
  EXPECT_OK(answers[Applier::kMaxParkedOfOne - 1]->value().status);
}

TEST_F(FullForMinutesTest, MoreReportsThanABatchTakesKeepTheirOrder) {
  constexpr int kAgents = 10;
  constexpr int kReports = 60;  // of each
  static_assert(kAgents * kReports > Applier::kMaxBatch && kReports <= Applier::kMaxParkedOfOne);
  std::vector<Agent> agents;
  std::vector<Fence> fences;
  for (int i = 0; i < kAgents; ++i) {
    agents.push_back(ConnectNew(absl::StrCat("worker-", i), 1));
    Submit();
    fences.push_back(StartRanks(agents.back()).fence);
  }
  std::vector<Agent*> all;
  for (Agent& agent : agents) all.push_back(&agent);
  disk_.SetFull(true);
  std::vector<std::shared_ptr<std::optional<EventResult>>> answers;
  for (int report = 1; report <= kReports; ++report) {
    for (int i = 0; i < kAgents; ++i) {
      answers.push_back(Post(MakeCommit(agents[i], fences[i], report)));
    }
  }
  BeatFor(absl::Seconds(9), all);  // they are tried, and wait again
  for (const auto& answer : answers) ASSERT_FALSE(answer->has_value());
  disk_.SetFull(false);
  BeatFor(absl::Seconds(3), all);
  for (size_t i = 0; i < answers.size(); ++i) {
    ASSERT_TRUE(answers[i]->has_value()) << i;
    EXPECT_OK((*answers[i])->status) << i;
  }
}

TEST_F(FullForMinutesTest, AHelloThatIsRefusedDropsNobodysReports) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  disk_.SetFull(true);
  const auto commit = Post(MakeCommit(one, fence, 50));
  // Another machine under its name, and one that knows of a newer controller.
  Agent other = MakeAgent("worker-1", 1);
  EXPECT_THAT(Connect(other).status, StatusIs(absl::StatusCode::kAborted));
  Agent ahead = one;
  EXPECT_THAT(Connect(ahead, /*last_term=*/1000).status,
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_FALSE(commit->has_value());
  disk_.SetFull(false);
  BeatFor(absl::Seconds(3), {&one});
  ASSERT_TRUE(commit->has_value());
  EXPECT_OK((*commit)->status);
  EXPECT_EQ(job(id).checkpoints.size(), 1u);
}

TEST_F(DiskFullTest, ReportsThatCannotBeStoredStayUnacknowledgedAndAreRepeated) {
  // The applier on its own, with a store whose bound the test moves.
  auto opened = StateStore::Open({.path = dir_ / "applier.db"});
  ASSERT_OK(opened);
  StateStore* store = opened->get();
  auto term = store->StartTerm();
  ASSERT_OK(term);
  auto initial = store->Load(*term, clock_.SinceBoot(), clock_.Now());
  ASSERT_OK(initial);
  bool fatal = false;
  Applier applier(*std::move(opened), *std::move(initial), clock_, Applier::Policies(),
                  {.before_publish = [](const AfterCommit&) {},
                   .after_publish = [](const AfterCommit&) {},
                   .answered = [](const Applier::Item&, const EventResult&) {},
                   .batch_done = [](const std::shared_ptr<const Snapshot>&) {},
                   .fatal = [&fatal](const absl::Status&) { fatal = true; }});
  std::vector<absl::Status> answers;
  auto post = [&](Event event) {
    applier.Post({.event = std::move(event),
                  .done = [&](const EventResult& result) { answers.push_back(result.status); },
                  .link = nullptr});
  };
  WorkerHello hello{.worker = "w",
                    .incarnation = "i",
                    .facts = testing::MakeFacts(1),
                    .acknowledged_event_seq = 0};
  post(hello);
  ASSERT_TRUE(applier.RunOnce());
  ASSERT_OK(answers.back());

  ASSERT_OK(store->SetMaxBytes(1));  // full: no page more
  answers.clear();
  RankReport report{.worker = "w",
                    .incarnation = "i",
                    .event_seq = 1,
                    .fence = {.job_id = 1, .attempt = 1},
                    .kind = RankReport::Kind::kStarted};
  // One batch of what fits and what does not; a big submit surely does not.
  post(SubmitJob{.settings = MakeSettings({.spec = std::string(500'000, 'x')}), .owner = "ann"});
  post(WorkerHeartbeat{.worker = "w", .incarnation = "i"});
  ASSERT_TRUE(applier.RunOnce());
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_THAT(answers[0], StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_OK(answers[1]);
  EXPECT_EQ(applier.snapshot()->jobs.size(), 0u);

  ASSERT_OK(store->SetMaxBytes(0));
  answers.clear();
  report.event_seq = 2;  // the next one must not overtake the one that failed
  post(report);
  ASSERT_TRUE(applier.RunOnce());
  EXPECT_THAT(answers.back(), StatusIs(absl::StatusCode::kAborted));
  post(SubmitJob{.settings = MakeSettings({}), .owner = "ann"});
  ASSERT_TRUE(applier.RunOnce());
  EXPECT_OK(answers.back());
  EXPECT_EQ(applier.snapshot()->jobs.size(), 1u);
  EXPECT_FALSE(fatal);
}

TEST_F(DiskFullTest, AnErrorOfTheDiskEndsTheEngineAndWhatWasPromisedStays) {
  int fatal = 0;
  engine_.reset();
  EngineOptions options = Options();
  options.on_fatal = [&fatal](const absl::Status&) { ++fatal; };
  auto opened = Engine::Open(options, clock_);
  ASSERT_OK(opened);
  engine_ = *std::move(opened);
  const uint64_t promised = Submit();
  // Each write beyond this size of a file fails with EFBIG.
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = 64 << 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const absl::Status status = TrySubmit({.spec = std::string(300'000, 'x')}).status;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("must start anew")));
  EXPECT_EQ(fatal, 1);
  EXPECT_THAT(TrySubmit({}).status, StatusIs(absl::StatusCode::kUnavailable));
  Restart();
  EXPECT_EQ(snapshot()->jobs.size(), 1u);
  EXPECT_EQ(state(promised), JobState::kPending);
}

}  // namespace
}  // namespace muster::controller
