#include "controller/policy/autoscale/scale_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"

namespace muster::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr absl::Duration kStart = absl::Hours(10);

class ScaleRulesTest : public ::testing::Test {
 protected:
  ScaleRulesTest() {
    scaling_.pool = "gpu";
    scaling_.max = 4;
    scaling_.patience = absl::Seconds(10);
    scaling_.idle_after = absl::Minutes(10);
    scaling_.cooldown = absl::Minutes(1);
    scaling_.start_within = absl::Minutes(5);
  }

  void Busy(const std::string& name) { sight_.workers.push_back({.name = name}); }
  void Idle(const std::string& name, absl::Duration since, bool leaving = false) {
    sight_.workers.push_back({.name = name, .idle_since = since, .leaving = leaving});
  }
  PoolDecision Decide(absl::Duration now) { return DecideScale(scaling_, sight_, now, memory_); }

  PoolScaling scaling_;
  PoolSight sight_;
  PoolMemory memory_;
};

TEST_F(ScaleRulesTest, MoreAreAskedForOnceJobsHaveLackedThemForAWhile) {
  sight_.shortage = 2;
  EXPECT_EQ(Decide(kStart).wanted, 0u);
  EXPECT_EQ(Decide(kStart + absl::Seconds(9)).wanted, 0u);
  EXPECT_EQ(Decide(kStart + absl::Seconds(10)).wanted, 2u);
}

TEST_F(ScaleRulesTest, AShortageThatPassesIsForgotten) {
  sight_.shortage = 2;
  Decide(kStart);
  sight_.shortage = 0;
  Decide(kStart + absl::Seconds(5));
  sight_.shortage = 2;
  EXPECT_EQ(Decide(kStart + absl::Seconds(12)).wanted, 0u);
}

TEST_F(ScaleRulesTest, NoMoreThanTheMostAndNoFewerThanTheLeast) {
  scaling_.min = 2;
  EXPECT_EQ(Decide(kStart).wanted, 2u);
  sight_.shortage = 100;
  Decide(kStart);
  EXPECT_EQ(Decide(kStart + absl::Minutes(1)).wanted, 4u);
}

TEST_F(ScaleRulesTest, AnIdleWorkerIsDrainedFirstAndGoesAtALaterLook) {
  Busy("a");
  Idle("b", kStart);
  sight_.asked = 2;
  EXPECT_THAT(Decide(kStart + absl::Minutes(9)).drain, IsEmpty());
  PoolDecision decision = Decide(kStart + absl::Minutes(10));
  EXPECT_THAT(decision.drain, ElementsAre("b"));
  EXPECT_EQ(decision.wanted, 2u);
  sight_.workers[1].leaving = true;
  decision = Decide(kStart + absl::Minutes(10));
  EXPECT_THAT(decision.drain, IsEmpty());
  EXPECT_EQ(decision.wanted, 1u);
  EXPECT_THAT(decision.leaving, ElementsAre("b"));
  EXPECT_THAT(decision.staying, ElementsAre("a"));
}

TEST_F(ScaleRulesTest, AWorkerThatGotARankWhileItWasDrainedStays) {
  Busy("a");
  sight_.workers[0].leaving = true;
  sight_.asked = 1;
  const PoolDecision decision = Decide(kStart);
  EXPECT_THAT(decision.undrain, ElementsAre("a"));
  EXPECT_EQ(decision.wanted, 1u);
  EXPECT_THAT(decision.leaving, IsEmpty());
}

TEST_F(ScaleRulesTest, AWorkerThatJobsCouldUseIsUndrained) {
  Idle("a", kStart, /*leaving=*/true);
  sight_.wanted_back = {"a"};
  sight_.asked = 1;
  const PoolDecision decision = Decide(kStart + absl::Hours(1));
  EXPECT_THAT(decision.undrain, ElementsAre("a"));
  EXPECT_EQ(decision.wanted, 1u);
}

TEST_F(ScaleRulesTest, TheLeastManyStayHoweverIdle) {
  scaling_.min = 1;
  Idle("a", kStart);
  Idle("b", kStart + absl::Minutes(1));
  EXPECT_THAT(Decide(kStart + absl::Hours(1)).drain, ElementsAre("a"));
}

TEST_F(ScaleRulesTest, WhatAPersonDrainedIsLeftToThem) {
  Idle("a", kStart);
  sight_.workers[0].kept_out = true;
  EXPECT_THAT(Decide(kStart + absl::Hours(1)).drain, IsEmpty());
}

TEST_F(ScaleRulesTest, NobodyGoesSoonAfterAChange) {
  Idle("a", kStart - absl::Hours(1));
  NoteAsked(1, kStart, memory_);
  EXPECT_THAT(Decide(kStart + absl::Seconds(59)).drain, IsEmpty());
  EXPECT_THAT(Decide(kStart + absl::Seconds(60)).drain, ElementsAre("a"));
}

TEST_F(ScaleRulesTest, OfAStatefulSetOnlyTheHighestNumbersGo) {
  scaling_.by_number = true;
  Idle("w-0", kStart);
  Busy("w-1");
  Idle("w-2", kStart);
  Idle("w-10", kStart);
  sight_.asked = 11;
  EXPECT_THAT(Decide(kStart + absl::Hours(1)).drain, UnorderedElementsAre("w-10", "w-2"));
}

TEST_F(ScaleRulesTest, OfAStatefulSetABusyWorkerKeepsThoseBelowIt) {
  scaling_.by_number = true;
  scaling_.max = 10;
  // 0 and 1 are on a node that died; nobody lacks a worker.
  Busy("w-2");
  sight_.asked = 3;
  EXPECT_EQ(Decide(kStart + absl::Hours(1)).wanted, 3u);
}

TEST_F(ScaleRulesTest, OfAStatefulSetALeavingWorkerBelowABusyOneStaysUntilThatIsDone) {
  scaling_.by_number = true;
  Idle("w-0", kStart, /*leaving=*/true);
  Busy("w-1");
  sight_.asked = 2;
  PoolDecision decision = Decide(kStart + absl::Hours(1));
  EXPECT_EQ(decision.wanted, 2u);
  EXPECT_THAT(decision.leaving, IsEmpty());
}

TEST_F(ScaleRulesTest, ANameWithoutANumberMakesNoNumberOfWorkers) {
  scaling_.by_number = true;
  Busy("stranger");
  sight_.asked = 1;
  EXPECT_EQ(Decide(kStart + absl::Hours(1)).wanted, 1u);
}

TEST_F(ScaleRulesTest, ThoseWhoDoNotComeAreNotCountedOnForAWhile) {
  sight_.shortage = 1;
  sight_.asked = 1;
  Decide(kStart);
  EXPECT_EQ(RoomFor(scaling_, 0, kStart + absl::Minutes(4), memory_), 4u);
  Decide(kStart + absl::Minutes(5));
  EXPECT_EQ(RoomFor(scaling_, 0, kStart + absl::Minutes(5), memory_), 0u);
  Decide(kStart + absl::Minutes(9));
  EXPECT_EQ(RoomFor(scaling_, 0, kStart + absl::Minutes(10), memory_), 4u);
}

// As a pod whose node is dead: the pool is counted on half of the time, for as long each time, and
// not for an instant in between.
TEST_F(ScaleRulesTest, AfterThePauseTheyHaveAsLongAgainAtHoweverManyLooks) {
  sight_.shortage = 1;
  sight_.asked = 1;
  for (absl::Duration at; at < absl::Minutes(30); at += absl::Seconds(5)) {
    Decide(kStart + at);
    const bool is_trusted = absl::ToInt64Minutes(at) / 5 % 2 == 0;
    EXPECT_EQ(RoomFor(scaling_, 0, kStart + at, memory_), is_trusted ? 4u : 0u) << at;
  }
}

TEST_F(ScaleRulesTest, ThoseWhoAreNotNeededAnyMoreAreNotWaitedFor) {
  Busy("a");
  sight_.asked = 3;
  NoteAsked(3, kStart, memory_);
  EXPECT_EQ(Decide(kStart + absl::Seconds(30)).wanted, 3u);
  EXPECT_EQ(Decide(kStart + absl::Seconds(60)).wanted, 1u);
}

// A pool that does as it is told, late, and whose workers die; jobs that come and go.
class RandomPool {
 public:
  explicit RandomPool(uint64_t seed) : seed_(seed) {
    scaling_.pool = "gpu";
    scaling_.min = Draw(3);
    scaling_.max = scaling_.min + 1 + Draw(5);
    scaling_.by_number = Draw(2) == 0;
    scaling_.patience = absl::Seconds(Draw(20));
    scaling_.idle_after = absl::Seconds(Draw(60));
    scaling_.cooldown = absl::Seconds(Draw(60));
    scaling_.start_within = absl::Seconds(60 + Draw(600));
    asked_ = scaling_.min;
  }

  void Run(int looks, bool quiet) {
    for (int i = 0; i < looks; ++i) {
      now_ += absl::Seconds(5);
      if (!quiet) Disturb();
      Arrive();
      Look();
      if (::testing::Test::HasFailure()) return;
    }
  }

  void Jobs(uint32_t wanted) { jobs_ = wanted; }
  size_t workers() const { return workers_.size(); }
  uint32_t busy() const {
    return std::count_if(workers_.begin(), workers_.end(),
                         [](const auto& one) { return !one.second.idle(); });
  }
  uint32_t asked() const { return asked_; }
  uint32_t changes() const { return changes_; }
  const PoolScaling& scaling() const { return scaling_; }

 private:
  uint32_t Draw(uint32_t below) {
    seed_ = SplitMix64(seed_);
    return static_cast<uint32_t>(seed_ >> 33) % below;
  }

  void Disturb() {
    if (Draw(4) == 0) jobs_ = Draw(2 * scaling_.max);
    if (Draw(20) == 0 && !workers_.empty()) {
      workers_.erase(std::next(workers_.begin(), Draw(workers_.size())));
    }
  }

  // What is asked for comes, and jobs take what is there.
  void Arrive() {
    for (uint32_t i = 0; workers_.size() < asked_ && i < 2; ++i) {
      uint32_t number = 0;
      while (scaling_.by_number ? workers_.count(absl::StrCat("w-", number)) != 0
                                : number <= newest_) {
        ++number;
      }
      if (scaling_.by_number && number >= asked_) break;
      newest_ = number;
      const std::string name = absl::StrCat("w-", number);
      workers_[name] = {.name = name, .idle_since = now_};
    }
    uint32_t running = busy();
    for (auto& [name, worker] : workers_) {
      if (!worker.idle() && running > jobs_) {
        worker.idle_since = now_;
        --running;
      } else if (worker.idle() && !worker.leaving && running < jobs_) {
        worker.idle_since = absl::InfiniteDuration();
        ++running;
      }
    }
  }

  void Look() {
    PoolSight sight;
    for (const auto& [name, worker] : workers_) sight.workers.push_back(worker);
    uint32_t lacking = jobs_ - std::min(jobs_, busy());
    for (const auto& [name, worker] : workers_) {
      if (lacking == 0 || !worker.leaving) continue;
      sight.wanted_back.insert(name);
      --lacking;
    }
    sight.shortage = std::min(lacking, RoomFor(scaling_, workers_.size(), now_, memory_));
    sight.asked = asked_;
    const PoolDecision decision = DecideScale(scaling_, sight, now_, memory_);
    ASSERT_LE(decision.wanted, std::max(scaling_.max, asked_));
    ASSERT_GE(decision.wanted, scaling_.min);
    for (const std::string& name : decision.drain) {
      ASSERT_TRUE(workers_.at(name).idle() && !workers_.at(name).leaving) << name;
      ASSERT_GE(now_ - workers_.at(name).idle_since, scaling_.idle_after);
      workers_.at(name).leaving = true;
    }
    for (const std::string& name : decision.undrain) {
      ASSERT_TRUE(workers_.at(name).leaving) << name;
      workers_.at(name).leaving = false;
      if (workers_.at(name).idle()) workers_.at(name).idle_since = now_;
    }
    if (decision.wanted < asked_) End(decision);
    changes_ += decision.wanted != asked_ || !decision.drain.empty() || !decision.undrain.empty();
    asked_ = decision.wanted;
    NoteAsked(asked_, now_, memory_);
  }

  // As Kubernetes or a cloud would.
  void End(const PoolDecision& decision) {
    for (const std::string& name : decision.leaving) {
      ASSERT_TRUE(workers_.at(name).idle() && workers_.at(name).leaving) << name;
    }
    if (!scaling_.by_number) {
      for (const std::string& name : decision.leaving) workers_.erase(name);
      return;
    }
    for (auto it = workers_.begin(); it != workers_.end();) {
      const uint32_t number = std::stoul(it->first.substr(2));
      if (number < decision.wanted) {
        ++it;
        continue;
      }
      ASSERT_TRUE(it->second.idle()) << it->first << " was busy and beyond " << decision.wanted;
      it = workers_.erase(it);
    }
  }

  uint64_t seed_;
  PoolScaling scaling_;
  PoolMemory memory_;
  absl::Duration now_ = kStart;
  std::map<std::string, ScaledWorker> workers_;
  uint32_t newest_ = 0;
  uint32_t asked_ = 0;
  uint32_t jobs_ = 0;
  uint32_t changes_ = 0;
};

TEST(ScalePropertyTest, NoBusyWorkerEverGoesAndEveryPoolSettles) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomPool pool(seed);
    pool.Run(100, /*quiet=*/false);
    if (HasFailure()) return;
    // The same jobs for a long time: all of them run that may, and nothing changes any more.
    const uint32_t jobs = seed % (2 * pool.scaling().max);
    pool.Jobs(jobs);
    pool.Run(800, /*quiet=*/true);
    const uint32_t before = pool.changes();
    pool.Run(100, /*quiet=*/true);
    ASSERT_EQ(pool.changes(), before);
    ASSERT_EQ(pool.busy(), std::min(jobs, pool.scaling().max));
    // None: only the least that there must be.
    pool.Jobs(0);
    pool.Run(800, /*quiet=*/true);
    ASSERT_EQ(pool.asked(), pool.scaling().min);
    ASSERT_EQ(pool.workers(), pool.scaling().min);
  }
}

}  // namespace
}  // namespace muster::controller
