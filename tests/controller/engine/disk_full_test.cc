// A full disk under the controller: submits are refused, nothing is lost, and it works again once
// there is room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "controller/engine/applier.h"
#include "tests/support/controller_fixture.h"

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
  WorkerHello hello{.worker = "w", .incarnation = "i", .facts = testing::MakeFacts(1)};
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
