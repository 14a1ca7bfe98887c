// The scheduler against random histories, with the applier's own rules in between: whatever
// happens, one that has followed the history decides as a fresh one does, every gang that it places
// is accepted, no bound is exceeded, nobody delays the head of a partition, and everybody runs in
// the end.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/engine/loops/archive_loop.h"
#include "controller/policy/archive/ended_jobs_queue.h"
#include "controller/policy/health/eligibility.h"
#include "controller/policy/scheduler.h"
#include "tests/controller/engine/random_history.h"
#include "tests/support/model_invariants.h"

namespace muster::controller {
namespace {

std::string Print(const Decision& decision) {
  std::string text = absl::StrCat("due ", absl::FormatDuration(decision.due_at), "\n");
  for (const PlaceGang& gang : decision.plan.place) {
    absl::StrAppend(&text, "place ", gang.job_id, ".", gang.attempt, ": ", gang.reason);
    for (const RankPlacement& rank : gang.ranks) {
      absl::StrAppend(&text, " ", rank.worker, "/", rank.local_rank);
      for (uint32_t slot : rank.slots) absl::StrAppend(&text, ",", slot);
    }
    absl::StrAppend(&text, "\n");
  }
  for (const Waiting& waiting : decision.plan.waiting) {
    absl::StrAppend(&text, "wait ", waiting.job_id, ": ", waiting.message, "\n");
  }
  for (const ReservedJob& head : decision.reserved) {
    absl::StrAppend(&text, "head ", head.job_id, " ", head.pool, " ", absl::FormatTime(head.start),
                    "\n");
  }
  return text;
}

void ExpectWithinQuotas(const Snapshot& snapshot) {
  for (const auto& [name, use] : *snapshot.use) {
    const Project* project = snapshot.FindProject(name);
    if (project == nullptr) continue;
    if (project->quota.slots.has_value()) {
      EXPECT_LE(use->all.slots, *project->quota.slots) << name;
    }
    for (const auto& [user, part] : use->users) {
      const Quota& quota = project->QuotaOf(user);
      if (quota.slots.has_value()) {
        EXPECT_LE(part.slots, *quota.slots) << name << " " << user;
      }
    }
  }
}

class SchedulingPropertyTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  // Decides, compares with a fresh scheduler, applies the plan and checks what it did.
  void Look() {
    const Decision decision = followed_.Decide(history_.snapshot(), history_.context());
    ASSERT_EQ(Print(decision), Print(Schedule(history_.snapshot(), history_.context())));
    const std::shared_ptr<const Snapshot> before =
        std::make_shared<const Snapshot>(history_.snapshot());
    history_.Apply(ApplyPlan{.plan = decision.plan});
    for (const PlaceGang& gang : decision.plan.place) {
      ASSERT_EQ(history_.snapshot().FindJob(gang.job_id)->state, JobState::kStarting)
          << "job " << gang.job_id << " was refused: " << gang.reason;
      ++placed_;
    }
    ExpectSubmitOrder(decision);
    ExpectWithinQuotas(history_.snapshot());
    ExpectHeadsNotDelayed(decision);
  }

  // Of two jobs alike, the one that was submitted first goes first.
  void ExpectSubmitOrder(const Decision& decision) {
    const Snapshot& now = history_.snapshot();
    for (const PlaceGang& gang : decision.plan.place) {
      const Job& later = *now.FindJob(gang.job_id);
      for (uint64_t id : *now.active_jobs) {
        if (id >= later.id) break;
        const Job& earlier = *now.FindJob(id);
        const bool alike =
            earlier.owner == later.owner && earlier.settings->project == later.settings->project &&
            earlier.settings->priority == later.settings->priority &&
            Demand::KeyOf(earlier.settings->needs) == Demand::KeyOf(later.settings->needs);
        const bool ready =
            Admit(now, earlier, history_.context()).decision == Admission::Decision::kReady;
        // A shorter one may pass where it delays nobody.
        const bool backfilled = gang.reason.find("does not hold up") != std::string::npos;
        const bool same_pools = later.settings->needs.pools.size() == 1;
        EXPECT_FALSE(alike && ready && same_pools && !backfilled)
            << "job " << later.id << " went before job " << id;
      }
    }
  }

  // Whoever made way for one that is placed now stands in the queue again, in its old place.
  bool BringsBackOneThatMadeWay(const Decision& decision) const {
    const Snapshot& now = history_.snapshot();
    for (const PlaceGang& gang : decision.plan.place) {
      for (uint64_t id : *now.active_jobs) {
        const Job& job = *now.FindJob(id);
        if (job.current != nullptr && job.current->preempted_by == gang.job_id) return true;
      }
    }
    return false;
  }

  // With the plan applied each head could start no later than without it.
  void ExpectHeadsNotDelayed(const Decision& decision) {
    if (!history_.HasOneProject() || BringsBackOneThatMadeWay(decision)) return;
    const Decision after = Schedule(history_.snapshot(), history_.context());
    for (const ReservedJob& head : decision.reserved) {
      for (const ReservedJob& same : after.reserved) {
        if (same.job_id != head.job_id || same.pool != head.pool) continue;
        EXPECT_LE(same.start, head.start) << "job " << head.job_id << " was delayed";
        if (head.start != absl::InfiniteFuture()) ++dated_heads_;
      }
    }
  }

  // Whether it asks for no more than the workers here have, and waits for nobody who does.
  bool CouldRun(const Job& job) const {
    const Snapshot& snapshot = history_.snapshot();
    for (const SchedulingSettings::Dependency& other : job.settings->scheduling.after) {
      const Job& before = *snapshot.FindJob(other.job_id);
      if (!IsTerminal(before.state) && !CouldRun(before)) return false;
    }
    for (const JobNeeds::Pool& pool : job.settings->needs.pools) {
      uint64_t ranks = 0;
      snapshot.workers.ForEach([&](const Worker& worker) {
        if (worker.facts.pool == pool.name) ranks += IdleRanks(worker, job.settings->needs);
      });
      if (ranks >= job.settings->needs.min_ranks) return true;
    }
    return false;
  }

  RandomHistory history_{GetParam()};
  Scheduler followed_;
  int placed_ = 0;
  int dated_heads_ = 0;
};

TEST_P(SchedulingPropertyTest, HoldsOverARandomHistory) {
  for (int step = 0; step < 250; ++step) {
    history_.Step(/*more_jobs=*/step < 170);
    ASSERT_NO_FATAL_FAILURE(Look());
  }
  EXPECT_EQ(testing::ModelFaults(history_.snapshot()), std::vector<std::string>());
  EXPECT_GT(placed_, 20);
  if (history_.HasOneProject()) {
    EXPECT_GT(dated_heads_, 0);
  }
  // Nothing new comes: whoever could run here runs in the end.
  for (int step = 0; step < 1500 && !history_.snapshot().active_jobs->empty(); ++step) {
    history_.Step(/*more_jobs=*/false);
    ASSERT_NO_FATAL_FAILURE(Look());
  }
  for (uint64_t id : *history_.snapshot().active_jobs) {
    const Job& job = *history_.snapshot().FindJob(id);
    EXPECT_FALSE(CouldRun(job)) << "job " << id << " starved: " << job.message;
  }
}

// Jobs that have ended leave meanwhile, and take nothing along that a decision goes by.
TEST_P(SchedulingPropertyTest, HoldsWhileEndedJobsLeave) {
  EndedJobsQueue ended(history_.context().now);
  size_t left = 0;
  for (int step = 0; step < 250; ++step) {
    history_.Step(/*more_jobs=*/step < 170);
    ArchiveJobs leave;
    for (const EndedJobs& jobs :
         ended.Next(history_.snapshot(), {.recent = 1}, history_.context().now)) {
      ArchiveJobs::Group& group = leave.groups.emplace_back();
      for (uint64_t id = jobs.first; id <= jobs.last; ++id) {
        group.push_back(RowsToArchive(history_.snapshot(), id));
      }
    }
    if (!leave.groups.empty()) {
      const size_t before = history_.snapshot().jobs.size();
      history_.Apply(leave);
      left += before - history_.snapshot().jobs.size();
      ASSERT_EQ(testing::ModelFaults(history_.snapshot()), std::vector<std::string>());
    }
    ASSERT_NO_FATAL_FAILURE(Look());
  }
  EXPECT_GT(left, 3u);
  EXPECT_EQ(history_.snapshot().jobs.size() + left, history_.snapshot().jobs.last_id());
}

INSTANTIATE_TEST_SUITE_P(Seeds, SchedulingPropertyTest, ::testing::Range<uint64_t>(1, 41));

}  // namespace
}  // namespace muster::controller
