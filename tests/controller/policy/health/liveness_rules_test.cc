#include "controller/policy/health/liveness_rules.h"

#include <gtest/gtest.h>

#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

constexpr absl::Duration kNow = absl::Hours(1);

LivenessSettings Settings() {
  return {.suspect_after = absl::Seconds(9),
          .lost_after = absl::Seconds(15),
          .startup_grace = absl::Seconds(30),
          .start_timeout = absl::Minutes(5),
          .hears_since = absl::ZeroDuration(),
          .started = absl::ZeroDuration()};
}

TEST(LivenessRulesTest, SilenceMakesSuspectThenLost) {
  World world;
  Worker& worker = world.AddWorker("a", 1);
  worker.pulse.last_seen_at = kNow;
  EXPECT_TRUE(FindSilent(world.view(), Settings(), kNow + absl::Seconds(8)).empty());
  auto events = FindSilent(world.view(), Settings(), kNow + absl::Seconds(9));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::get<WorkerSilent>(events[0]).presence, Presence::kSuspect);
  worker.pulse.suspect = true;
  EXPECT_TRUE(FindSilent(world.view(), Settings(), kNow + absl::Seconds(14)).empty());
  events = FindSilent(world.view(), Settings(), kNow + absl::Seconds(15));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::get<WorkerSilent>(events[0]).presence, Presence::kLost);
  worker.lost = true;
  EXPECT_TRUE(FindSilent(world.view(), Settings(), kNow + absl::Hours(1)).empty());
}

// On a full disk those that are lost come again at each look, as many as they are.
TEST(LivenessRulesTest, SuspectsAreFoundHoweverManyAreLost) {
  World world;
  for (const char* name : {"a", "b", "c"}) {
    Worker& lost = world.AddWorker(name, 1);
    lost.pulse.suspect = true;
    lost.pulse.last_seen_at = kNow - absl::Hours(1);
  }
  world.AddWorker("d", 1).pulse.last_seen_at = kNow - absl::Seconds(10);
  const auto found = FindSilent(world.view(), Settings(), kNow, /*most=*/2);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(std::get<WorkerSilent>(found[0]).worker, "d");
  EXPECT_EQ(std::get<WorkerSilent>(found[0]).presence, Presence::kSuspect);
  EXPECT_EQ(std::get<WorkerSilent>(found[1]).worker, "a");
  EXPECT_EQ(FindSilent(world.view(), Settings(), kNow).size(), 4u);
}

TEST(LivenessRulesTest, TheGraceAfterAStartKeepsWorkers) {
  World world;
  Worker& worker = world.AddWorker("a", 1);
  worker.pulse.suspect = true;
  LivenessSettings settings = Settings();
  settings.hears_since = kNow;
  EXPECT_TRUE(FindSilent(world.view(), settings, kNow + absl::Seconds(29)).empty());
  EXPECT_EQ(FindSilent(world.view(), settings, kNow + absl::Seconds(30)).size(), 1u);
}

TEST(LivenessRulesTest, AStandstillPutsOffByAnHourWhenAWorkerIsTakenForGone) {
  World world;
  Worker& worker = world.AddWorker("a", 1);
  worker.lost = true;
  worker.pulse.holders[0] = {.job_id = 1, .attempt = 1, .rank = 0};
  LivenessSettings settings = Settings();
  settings.forget_gone_after = absl::Hours(7 * 24);
  const absl::Duration week = absl::Hours(7 * 24);
  EXPECT_TRUE(FindSilent(world.view(), settings, week - absl::Hours(1)).empty());
  EXPECT_EQ(FindSilent(world.view(), settings, week).size(), 1u);
  // It was frozen for weeks: agents come back when it goes on.
  settings.hears_since = 3 * week;
  EXPECT_TRUE(FindSilent(world.view(), settings, 3 * week + absl::Minutes(59)).empty());
  EXPECT_EQ(FindSilent(world.view(), settings, 3 * week + absl::Hours(1)).size(), 1u);
  settings.started = 3 * week;
  EXPECT_TRUE(FindSilent(world.view(), settings, 3 * week + absl::Hours(1)).empty());
}

TEST(LivenessRulesTest, AGangMustStartInTime) {
  World world;
  world.AddWorker("a", 1).pulse.last_seen_at = kNow + absl::Minutes(5);
  world.AddJob(World::Settings(1));
  world.Place(1, {"a"}, JobState::kStarting);
  world.draft().EditAttempt(1).placed_at = kNow;
  EXPECT_TRUE(
      FindSilent(world.view(), Settings(), kNow + absl::Minutes(5) - absl::Seconds(1)).empty());
  const auto events = FindSilent(world.view(), Settings(), kNow + absl::Minutes(5));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::get<StartTimedOut>(events[0]).attempt, 1u);
}

// A checkpoint of many gigabytes is reread for longer than that.
TEST(LivenessRulesTest, AGangThatSaysThatItsStartGoesOnMayTakeItsTime) {
  World world;
  world.AddJob(World::Settings(2));
  for (const char* name : {"a", "b"}) {
    Worker& worker = world.AddWorker(name, 1);
    worker.pulse.last_seen_at = kNow + absl::Hours(1);
    const bool first = worker.name == "a";
    worker.pulse.ranks = std::make_shared<const std::vector<RankStatus>>(
        std::vector<RankStatus>{{.fence = {.job_id = 1, .attempt = 1},
                                 .rank = first ? 0u : 1u,
                                 .progress_at = kNow + absl::Minutes(first ? 1 : 9)}});
  }
  world.Place(1, {"a", "b"}, JobState::kStarting);
  world.draft().EditAttempt(1).placed_at = kNow;
  const absl::Duration end = kNow + absl::Minutes(14);
  EXPECT_TRUE(FindSilent(world.view(), Settings(), end - absl::Seconds(1)).empty());
  world.draft().EditWorker(2).pulse.connected = false;
  EXPECT_TRUE(FindSilent(world.view(), Settings(), end - absl::Seconds(1)).empty())
      << "its stream broke, which takes nothing back";
  const auto events = FindSilent(world.view(), Settings(), end);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::get<StartTimedOut>(events[0]).waited, absl::Minutes(5));
  EXPECT_EQ(std::get<StartTimedOut>(events[0]).got_on_at, kNow + absl::Minutes(9));
}

TEST(LivenessRulesTest, WhatAnEarlierAttemptSaidIsNoSignOfThisOne) {
  World world;
  world.AddJob(World::Settings(1));
  Worker& worker = world.AddWorker("a", 1);
  worker.pulse.last_seen_at = kNow + absl::Hours(1);
  worker.pulse.ranks = std::make_shared<const std::vector<RankStatus>>(std::vector<RankStatus>{
      {.fence = {.job_id = 1, .attempt = 7}, .progress_at = kNow + absl::Minutes(4)}});
  world.Place(1, {"a"}, JobState::kStarting);
  world.draft().EditAttempt(1).placed_at = kNow;
  EXPECT_EQ(FindSilent(world.view(), Settings(), kNow + absl::Minutes(5)).size(), 1u);
}

TEST(LivenessRulesTest, AJobWithAnImageMayTakeLongerToStart) {
  World world;
  world.AddWorker("a", 1).pulse.last_seen_at = kNow + absl::Hours(1);
  JobSettings settings = World::Settings(1);
  settings.needs.image = JobNeeds::Image::kReference;
  world.AddJob(settings);
  world.Place(1, {"a"}, JobState::kStarting);
  world.draft().EditAttempt(1).placed_at = kNow;
  const absl::Duration patience = absl::Minutes(35);
  EXPECT_TRUE(FindSilent(world.view(), Settings(), kNow + patience - absl::Seconds(1)).empty());
  EXPECT_EQ(FindSilent(world.view(), Settings(), kNow + patience).size(), 1u);
}

TEST(LivenessRulesTest, TheStillestRankIsNamed) {
  World world;
  world.AddJob(World::Settings(2));
  for (const char* name : {"a", "b"}) {
    Worker& worker = world.AddWorker(name, 1);
    worker.pulse.last_seen_at = kNow + absl::Minutes(11);
    const uint32_t rank = name[0] - 'a';
    worker.pulse.ranks = std::make_shared<const std::vector<RankStatus>>(
        std::vector<RankStatus>{{.fence = {.job_id = 1, .attempt = 1},
                                 .rank = rank,
                                 .progress_at = kNow + absl::Minutes(1 - int(rank))}});
  }
  world.Place(1, {"a", "b"}, JobState::kRunning);
  EXPECT_TRUE(FindSilent(world.view(), Settings(), kNow + absl::Minutes(9)).empty());
  const auto events = FindSilent(world.view(), Settings(), kNow + absl::Minutes(11));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::get<RankHung>(events[0]).rank, 1u);
  EXPECT_EQ(std::get<RankHung>(events[0]).progress_at, kNow);
  // One that has ended, or whose worker is away, cannot be hung.
  world.draft().EditRank(1, 1).state = RankState::kExited;
  EXPECT_EQ(
      std::get<RankHung>(FindSilent(world.view(), Settings(), kNow + absl::Minutes(11)).at(0)).rank,
      0u);
  world.draft().EditWorker(1).pulse.connected = false;
  EXPECT_TRUE(FindSilent(world.view(), Settings(), kNow + absl::Minutes(11)).empty());
}

}  // namespace
}  // namespace muster::controller
