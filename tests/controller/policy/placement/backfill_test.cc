// Who may pass the head of a partition.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/policy/scheduler.h"
#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kNow = absl::Hours(1);
const absl::Time kWall = absl::FromUnixSeconds(1'700'000'000);

JobSettings Lasting(uint32_t ranks, absl::Duration expected) {
  JobSettings settings = World::Settings(ranks);
  settings.scheduling.expected_run_time = expected;
  return settings;
}

class BackfillTest : public ::testing::Test {
 protected:
  // A job that runs on slots [first, first + ranks) of the worker since `kWall`.
  uint64_t Run(const std::string& worker, uint32_t first, const JobSettings& settings) {
    const uint64_t id = world_.AddJob(settings).id;
    Attempt attempt;
    attempt.number = 1;
    attempt.started = kWall;
    for (uint32_t i = 0; i < settings.needs.min_ranks; ++i) {
      Rank rank;
      rank.rank = i;
      rank.worker = worker;
      rank.slots = {first + i};
      HoldSlots(PulseOf(worker), settings.needs, id, 1, rank);
      attempt.ranks.push_back(rank);
    }
    world_.draft().AddAttempt(id, attempt);
    world_.draft().EditAttempt(id).held_from = kWall;
    world_.draft().EditJob(id).state = JobState::kRunning;
    return id;
  }
  WorkerPulse& PulseOf(const std::string& name) {
    return world_.draft().EditPulse(world_.draft().view().FindWorker(name)->id);
  }
  uint64_t Queue(const JobSettings& settings) { return world_.AddJob(settings).id; }
  std::vector<uint64_t> Placed(absl::Duration later = absl::ZeroDuration()) {
    decision_ =
        Schedule(world_.view(), {.now = kNow + later, .wall = kWall + later + clock_set_by_});
    std::vector<uint64_t> jobs;
    for (const PlaceGang& gang : decision_.plan.place) jobs.push_back(gang.job_id);
    return jobs;
  }
  using Jobs = std::vector<uint64_t>;

  World world_{kWall - kNow};
  Decision decision_;
  absl::Duration clock_set_by_;
};

TEST_F(BackfillTest, AJobThatEndsBeforeTheHeadStartsMayPass) {
  world_.AddWorker("a", 4);
  Run("a", 0, Lasting(2, absl::Minutes(30)));
  const uint64_t head = Queue(Lasting(4, absl::Hours(1)));
  const uint64_t longer = Queue(Lasting(1, absl::Minutes(31)));
  const uint64_t unknown = Queue(World::Settings(1));
  const uint64_t shorter = Queue(Lasting(2, absl::Minutes(30)));
  EXPECT_EQ(Placed(), Jobs{shorter});
  ASSERT_EQ(decision_.reserved.size(), 1u);
  EXPECT_EQ(decision_.reserved[0].job_id, head);
  EXPECT_EQ(decision_.reserved[0].start, kWall + absl::Minutes(30));
  EXPECT_THAT(decision_.plan.place[0].reason, HasSubstr("before job 2, which it does not hold up"));
  ASSERT_GE(decision_.plan.waiting.size(), 3u);
  EXPECT_THAT(decision_.plan.waiting[0].message, HasSubstr("enough should be free at"));
  EXPECT_EQ(decision_.plan.waiting[1].job_id, longer);
  EXPECT_THAT(decision_.plan.waiting[2].message, HasSubstr("waits behind job 2"));
  EXPECT_EQ(decision_.plan.waiting[2].job_id, unknown);
}

TEST_F(BackfillTest, SlotsThatTheHeadWillNotNeedAreFreeForAll) {
  world_.AddWorker("a", 4);
  Run("a", 0, Lasting(3, absl::Minutes(30)));
  Queue(World::Settings(3));
  const uint64_t unknown = Queue(World::Settings(1));
  EXPECT_EQ(Placed(), Jobs{unknown}) << "at the head's start four slots are free, it needs three";
}

TEST_F(BackfillTest, WhenNobodyKnowsHowLongTheOthersRunNobodyPasses) {
  world_.AddWorker("a", 4);
  Run("a", 0, World::Settings(3));
  const uint64_t head = Queue(World::Settings(3));
  Queue(Lasting(1, absl::Seconds(1)));
  EXPECT_EQ(Placed(), Jobs{});
  ASSERT_EQ(decision_.reserved.size(), 1u);
  EXPECT_EQ(decision_.reserved[0].job_id, head);
  EXPECT_EQ(decision_.reserved[0].start, absl::InfiniteFuture());
}

TEST_F(BackfillTest, ARunPastItsTimeIsNoPromiseAnyMore) {
  world_.AddWorker("a", 2);
  Run("a", 0, Lasting(1, absl::Minutes(5)));
  Queue(World::Settings(2));
  const uint64_t shorter = Queue(Lasting(1, absl::Minutes(1)));
  EXPECT_EQ(Placed(), Jobs{shorter});
  EXPECT_EQ(Placed(absl::Minutes(6)), Jobs{});
}

TEST_F(BackfillTest, WhoSetsTheWallClockChangesNothingOfTheEnds) {
  for (const absl::Duration by : {absl::Hours(-10'000), absl::Hours(1), absl::Hours(10'000)}) {
    world_ = World(kWall - kNow);
    world_.AddWorker("a", 4);
    const uint64_t foretold = Run("a", 0, Lasting(2, absl::Hours(2)));
    world_.draft().EditJob(foretold).progress.pace = {.attempt = 1,
                                                      .end = kWall + absl::Minutes(30)};
    Run("a", 2, Lasting(1, absl::Minutes(20)));
    Queue(Lasting(4, absl::Hours(1)));
    const uint64_t longer = Queue(Lasting(1, absl::Minutes(21)));
    const uint64_t shorter = Queue(Lasting(1, absl::Minutes(20)));
    clock_set_by_ = by;
    EXPECT_EQ(Placed(absl::Minutes(10)), Jobs{shorter}) << longer << " does not fit";
    ASSERT_EQ(decision_.reserved.size(), 1u);
    EXPECT_EQ(decision_.reserved[0].start, kWall + by + absl::Minutes(30));
  }
}

TEST_F(BackfillTest, ALimitIsAnEstimateAndHolds) {
  world_.AddWorker("a", 2);
  JobSettings limited = World::Settings(1);
  limited.scheduling.max_run_time = absl::Minutes(30);
  Run("a", 0, limited);
  Queue(World::Settings(2));
  JobSettings brief = World::Settings(1);
  brief.scheduling.max_run_time = absl::Minutes(30);
  const uint64_t shorter = Queue(brief);
  EXPECT_EQ(Placed(), Jobs{shorter});
}

TEST_F(BackfillTest, RunTimesAreLearnedFromJobsOfTheName) {
  world_.AddWorker("a", 2);
  JobSettings settings = World::Settings(1);
  settings.name = "nightly";
  settings.project = "p";
  for (int minutes : {3, 9}) {
    const uint64_t id = Queue(settings);
    Attempt attempt;
    attempt.number = 1;
    attempt.started = kWall - absl::Hours(1);
    attempt.ended = attempt.started + absl::Minutes(minutes);
    world_.draft().AddAttempt(id, attempt);
    world_.draft().EditJob(id).state = JobState::kSucceeded;
  }
  EXPECT_EQ(world_.view().run_times.Find("p/nightly")->Longest(), absl::Minutes(9));
  JobSettings other = Lasting(1, absl::Minutes(10));
  other.project = "p";
  Run("a", 0, other);
  JobSettings head = World::Settings(2);
  head.project = "p";
  Queue(head);
  const uint64_t learned = Queue(settings);
  EXPECT_EQ(Placed(), Jobs{learned});
  EXPECT_EQ(Placed(absl::Minutes(2)), Jobs{}) << "eight minutes are left until the head starts";
}

TEST_F(BackfillTest, ALineWaitsForItsHeadOnlyWhereThatCouldRun) {
  world_.AddWorker("a", 2).facts.labels = {{"zone", "x"}};
  world_.AddWorker("b", 2);
  Run("a", 0, World::Settings(1));
  JobSettings picky = World::Settings(2);
  picky.needs.selector = {{"zone", "x"}};
  Queue(picky);
  const uint64_t other = Queue(World::Settings(2));
  EXPECT_EQ(Placed(), Jobs{other});
  EXPECT_EQ(decision_.plan.place[0].ranks[0].worker, "b");
}

TEST_F(BackfillTest, ARecoveringJobKeepsTheSlotsThatItsRanksGaveBack) {
  world_.AddWorker("a", 2);
  world_.AddWorker("b", 2);
  Run("b", 0, World::Settings(2));
  const uint64_t recovering = Run("a", 0, World::Settings(2));
  Queue(World::Settings(1));
  Queue(Lasting(1, absl::Seconds(1)));
  world_.draft().EditJob(recovering).state = JobState::kRecovering;
  world_.draft().EditRank(recovering, 0).holds_slots = false;
  PulseOf("a").holders.erase(0);
  EXPECT_EQ(Placed(), Jobs{});
  ASSERT_EQ(decision_.reserved.size(), 1u);
  EXPECT_EQ(decision_.reserved[0].job_id, recovering);
  EXPECT_EQ(decision_.reserved[0].start, kWall) << "its other rank is leaving";
}

// What it holds counts already, so that no quota holds it back.
TEST_F(BackfillTest, ItKeepsThemAlsoWhereItsProjectIsOverQuota) {
  world_.AddWorker("a", 2);
  world_.draft().EditProject("p").quota.slots = 2;
  JobSettings two = World::Settings(2);
  two.project = "p";
  two.priority = 1;
  const uint64_t alike = Queue(two);
  const uint64_t recovering = Run("a", 0, two);
  Queue(World::Settings(1));
  world_.draft().EditJob(recovering).state = JobState::kRecovering;
  world_.draft().EditRank(recovering, 0).holds_slots = false;
  PulseOf("a").holders.erase(0);
  EXPECT_EQ(Placed(), Jobs{}) << "the job before it is over quota, and is alike";

  // Another kind of job, and the look says nothing more.
  two.needs.exclude = {"b"};
  world_.draft().EditJob(alike).settings = std::make_shared<const JobSettings>(two);
  EXPECT_EQ(Placed(), Jobs{});
  ScheduleContext context{.now = kNow, .wall = kWall};
  context.settings.max_messages = 0;
  const Decision silent = Schedule(world_.view(), context);
  EXPECT_TRUE(silent.plan.place.empty()) << silent.plan.place.front().reason;
}

}  // namespace
}  // namespace muster::controller
