// Explanations against random histories, with the applier's own rules in between: what is named is
// what is in the way, all of it, and the time that is told is the time at which the job starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/policy/explain/explain.h"
#include "controller/policy/health/eligibility.h"
#include "controller/policy/limits/run_time.h"
#include "controller/policy/limits/time_limits.h"
#include "controller/policy/scheduler.h"
#include "tests/controller/engine/random_history.h"

namespace muster::controller {
namespace {

std::string Print(const Explanation& e) {
  std::string text = absl::StrCat(e.reason, "; ahead ", e.ahead_count, "\n");
  for (const Blocker& b : e.blockers) {
    absl::StrAppend(&text, b.is_hint ? "  hint " : "  ", static_cast<int>(b.kind), " ", b.pool, " ",
                    b.message, " | ", b.needed, " | ", b.available, "\n");
  }
  return text;
}

bool Places(const Decision& decision, uint64_t id) {
  return std::any_of(decision.plan.place.begin(), decision.plan.place.end(),
                     [id](const PlaceGang& gang) { return gang.job_id == id; });
}

bool IsReal(const Blocker& blocker) { return !blocker.is_hint; }

// A copy of the world from which blockers are taken away, each by what its words say.
class Lifted {
 public:
  Lifted(const Snapshot& snapshot, uint64_t id, const ScheduleContext& context)
      : draft_(snapshot), id_(id), context_(context) {}

  void Lift(const Blocker& blocker, const Explanation& all) {
    switch (blocker.kind) {
      case BlockerKind::kHeld:
        draft_.EditJob(id_).held = false;
        return;
      case BlockerKind::kSuspended:
        draft_.EditJob(id_).suspending = false;
        if (job().state == JobState::kSuspended) GoTo(JobState::kPending, Reason::kResumed);
        return;
      case BlockerKind::kLeaving:
        EndRanks(id_);
        GoTo(job().suspending ? JobState::kSuspended : JobState::kPending, Reason::kAttemptCleared);
        return;
      case BlockerKind::kDependency:
        EditSettings([](JobSettings& settings) { settings.scheduling.after.clear(); });
        return;
      case BlockerKind::kMadeWay:
        draft_.EditAttempt(id_).preempted_by = 0;
        return;
      case BlockerKind::kBegin:
        EditSettings([](JobSettings& s) { s.scheduling.begin = absl::InfinitePast(); });
        return;
      case BlockerKind::kBackoff:
        draft_.EditJob(id_).not_before_at = context_.now;
        return;
      case BlockerKind::kArray:
        draft_.EditJob(id_).array.at_a_time = 0;
        return;
      case BlockerKind::kQuota:
        return LiftQuotas();
      case BlockerKind::kSlots:
      case BlockerKind::kCpus:
      case BlockerKind::kMemory:
        return FreePool(blocker.pool);
      case BlockerKind::kWorkers:
        return BringWorkers(blocker.pool);
      case BlockerKind::kOrder:
        for (uint64_t ahead : all.ahead) SetAside(ahead);
        return;
      default:
        FAIL() << "a hint among the blockers: " << blocker.message;
    }
  }

  std::shared_ptr<const Snapshot> Finish() { return draft_.Finish(); }
  Decision Decide() { return Schedule(*Finish(), context_); }

 private:
  const Job& job() const { return *draft_.view().FindJob(id_); }

  void GoTo(JobState state, Reason reason) {
    draft_.AddEvent({.job_id = id_,
                     .time = context_.wall,
                     .from = job().state,
                     .to = state,
                     .reason = reason,
                     .actor = "user:u0",
                     .message = "",
                     .attempt = job().attempt,
                     .at = draft_.view().LedgerTime(context_.now)});
    draft_.EditJob(id_).state = state;
  }

  std::vector<uint64_t> WorkerIds() const {
    std::vector<uint64_t> ids;
    draft_.view().workers.ForEach([&ids](const Worker& worker) { ids.push_back(worker.id); });
    return ids;
  }

  template <typename Edit>
  void EditSettings(Edit edit) {
    auto settings = std::make_shared<JobSettings>(*job().settings);
    edit(*settings);
    draft_.EditJob(id_).settings = settings;
  }

  void EndRanks(uint64_t id) {
    Attempt& attempt = draft_.EditAttempt(id);
    attempt.ended = context_.wall;
    for (Rank& rank : attempt.ranks) {
      rank.holds_slots = false;
      rank.state = RankState::kExited;
    }
    for (uint64_t worker : WorkerIds()) {
      std::erase_if(draft_.EditWorker(worker).pulse.holders,
                    [id](const auto& holder) { return holder.second.job_id == id; });
    }
  }

  // Out of the queue, and nothing else changes.
  void SetAside(uint64_t id) {
    Job& job = draft_.EditJob(id);
    (job.state == JobState::kPending ? job.held : job.suspending) = true;
  }

  void LiftQuotas() {
    Project& project = draft_.EditProject(job().settings->project);
    project.quota = {};
    project.each_user = {};
    project.users.clear();
  }

  void FreePool(const std::string& pool) {
    for (uint64_t id : WorkerIds()) {
      const Worker& worker = *draft_.view().workers.Find(id);
      if (worker.facts.pool == pool && TakesWork(worker))
        draft_.EditWorker(id).pulse.holders.clear();
    }
  }

  // Those that are away come back; if even so it could never fit, there is a new one.
  void BringWorkers(const std::string& pool) {
    const JobNeeds needs = job().settings->needs;
    uint64_t ranks = 0;
    for (uint64_t id : WorkerIds()) {
      Worker& worker = draft_.EditWorker(id);
      if (worker.facts.pool != pool || !IsEligible(worker, needs)) continue;
      worker.pulse.connected = true;
      worker.lost = false;
      worker.pulse.suspect = false;
      worker.draining = false;
      worker.cordoned = false;
      worker.quarantined_until = absl::InfinitePast();
      ranks += IdleRanks(worker, needs);
    }
    if (ranks >= needs.min_ranks) return;
    Worker worker;
    worker.name = "new";
    worker.pulse.connected = true;
    worker.facts.pool = pool;
    worker.facts.labels = needs.selector;
    for (uint32_t i = 0; i < needs.min_ranks * needs.slots_per_rank; ++i) {
      worker.facts.slots.push_back({.index = i,
                                    .kind = needs.slot_kind,
                                    .device = needs.gpu_type,
                                    .uuid = "",
                                    .memory_bytes = 0});
    }
    worker.facts.cpus = needs.min_ranks * needs.cpus_per_rank;
    worker.facts.memory_bytes = needs.min_ranks * needs.memory_per_rank;
    draft_.AddWorker(std::move(worker));
  }

  Draft draft_;
  const uint64_t id_;
  const ScheduleContext context_;
};

std::string Describe(const Decision& decision) {
  std::string text;
  for (const PlaceGang& gang : decision.plan.place) {
    absl::StrAppend(&text, "\n  places ", gang.job_id, ": ", gang.reason);
  }
  for (const ReservedJob& head : decision.reserved) {
    absl::StrAppend(&text, "\n  head of ", head.pool, ": ", head.job_id);
  }
  for (const Waiting& waiting : decision.plan.waiting) {
    absl::StrAppend(&text, "\n  waits ", waiting.job_id, ": ", waiting.message);
  }
  return text;
}

class ExplainPropertyTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  static constexpr size_t kJobsAStep = 6;  // about
  static constexpr int kMaxRounds = 25;

  void CheckAll(const Decision& decision) {
    for (uint64_t id : *history_.snapshot().active_jobs) {
      if (history_.Draw(history_.snapshot().active_jobs->size()) >= kJobsAStep) continue;
      const Job& job = *history_.snapshot().FindJob(id);
      const Explanation e = Explain(history_.snapshot(), id, history_.context());
      SCOPED_TRACE(absl::StrCat("seed ", GetParam(), " job ", id, " ", JobStateName(job.state),
                                ": ", Print(e)));
      const bool waits = job.state == JobState::kPending || job.state == JobState::kRecovering ||
                         job.state == JobState::kSuspended;
      ASSERT_EQ(e.waits, waits);
      if (!waits) {
        EXPECT_TRUE(e.blockers.empty());
        continue;
      }
      ASSERT_NO_FATAL_FAILURE(CheckReason(decision, job, e));
      ASSERT_NO_FATAL_FAILURE(CheckBlockers(decision, job, e));
    }
  }

  // What is said agrees with what `ls` shows once the plan is applied.
  void CheckReason(const Decision& decision, const Job& job, const Explanation& e) {
    std::string shown = job.message;
    for (const Waiting& waiting : decision.plan.waiting) {
      if (waiting.job_id == job.id) shown = waiting.message;
    }
    for (const PlaceGang& gang : decision.plan.place) {
      if (gang.job_id == job.id) shown = gang.reason;
    }
    ASSERT_EQ(e.reason, shown);
  }

  void CheckBlockers(const Decision& decision, const Job& job, const Explanation& e) {
    const bool blocked = std::any_of(e.blockers.begin(), e.blockers.end(), IsReal);
    ASSERT_EQ(Places(decision, job.id), !blocked);
    if (!blocked) {
      ASSERT_EQ(e.start, history_.context().wall);
      ++placed_;
      return;
    }
    if (e.ahead_count > Explanation::kMaxListed) return;
    ASSERT_NO_FATAL_FAILURE(LiftAll(job, e));
    ASSERT_NO_FATAL_FAILURE(CheckEachIsNeeded(job, e));
  }

  // When all that is named is taken away it is placed. Where that lets others in before it (another
  // project has its turn, who made way need not wait any more, quotas fill) they are named then.
  void LiftAll(const Job& job, Explanation e) {
    std::shared_ptr<const Snapshot> world = history_.Share();
    for (int round = 1;; ++round) {
      Lifted next(*world, job.id, history_.context());
      for (const Blocker& blocker : e.blockers) {
        if (!IsReal(blocker)) continue;
        next.Lift(blocker, e);
        ++seen_[blocker.kind];
        EXPECT_FALSE(blocker.message.empty());
      }
      world = next.Finish();
      const Decision decision = Schedule(*world, history_.context());
      if (Places(decision, job.id)) {
        ++(round == 1 ? lifted_at_once_ : lifted_later_);
        return;
      }
      ASSERT_LT(round, kMaxRounds) << "something else is in the way: " << Describe(decision);
      ASSERT_FALSE(IsStill()) << "something else is in the way: " << Describe(decision);
      e = Explain(*world, job.id, history_.context());
      if (e.ahead_count > Explanation::kMaxListed) return;
    }
  }

  // Whether nobody's place in the queue depends on what others hold.
  bool IsStill() const {
    const std::vector<uint64_t>& jobs = *history_.snapshot().active_jobs;
    return history_.HasOneProject() && std::none_of(jobs.begin(), jobs.end(), [&](uint64_t id) {
             const Job& job = *history_.snapshot().FindJob(id);
             return job.current != nullptr && job.current->preempted_by != 0;
           });
  }

  // Whether the end of those who come first would lift the blocker too: they are what it counts.
  bool GoesWithThoseAhead(const Job& job, const Blocker& blocker, const Explanation& e) const {
    return std::any_of(e.ahead.begin(), e.ahead.end(), [&](uint64_t id) {
      const Job& ahead = *history_.snapshot().FindJob(id);
      if (blocker.kind == BlockerKind::kArray) return ahead.array.array_id == job.array.array_id;
      if (blocker.kind != BlockerKind::kQuota) return id == blocker.job_id;
      return ahead.settings->project == job.settings->project;
    });
  }

  // With one of those that have nothing to do with slots left, it does not start.
  void CheckEachIsNeeded(const Job& job, const Explanation& e) {
    for (const Blocker& left : e.blockers) {
      if (left.kind > BlockerKind::kQuota || GoesWithThoseAhead(job, left, e)) continue;
      ++needed_;
      Lifted world(history_.snapshot(), job.id, history_.context());
      for (const Blocker& blocker : e.blockers) {
        if (IsReal(blocker) && blocker.kind != left.kind) world.Lift(blocker, e);
      }
      ASSERT_FALSE(Places(world.Decide(), job.id)) << "not in the way: " << left.message;
    }
  }

  RandomHistory history_{GetParam(), {.people = true}};
  Scheduler scheduler_;
  int placed_ = 0;
  int needed_ = 0;
  int lifted_at_once_ = 0;
  int lifted_later_ = 0;
  std::map<BlockerKind, int> seen_;
};

TEST_P(ExplainPropertyTest, NamesAllThatIsInTheWayAndNothingElse) {
  for (int step = 0; step < 160; ++step) {
    history_.Step(/*more_jobs=*/true);
    ScheduleContext context = history_.context();
    context.settings.max_messages = 10'000;
    const Decision decision = scheduler_.Decide(history_.snapshot(), context);
    ASSERT_NO_FATAL_FAILURE(CheckAll(decision)) << "step " << step;
    history_.Apply(ApplyPlan{.plan = decision.plan});
  }
  EXPECT_GT(placed_, 5);
  EXPECT_GT(needed_, 10);
  EXPECT_GT(lifted_at_once_, 5 * lifted_later_);
  for (const auto& [kind, count] : seen_) {
    RecordProperty(absl::StrCat("kind_", static_cast<int>(kind)), count);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ExplainPropertyTest, ::testing::Range<uint64_t>(1, 41));

// Nothing new comes, nothing fails, and every job runs exactly as long as it said.
class OutlookPropertyTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  static constexpr int kMaxMoments = 3000;
  static constexpr int kMaxPlans = 1000;  // at one moment

  const Snapshot& world() const { return history_.snapshot(); }

  // Until the scheduler has no more to do at this instant.
  void Settle() {
    for (int plans = 0;; ++plans) {
      ASSERT_LT(plans, kMaxPlans) << "there is no end of it";
      const Decision decision = scheduler_.Decide(world(), history_.context());
      due_at_ = decision.due_at;
      if (decision.plan.empty()) return;
      history_.Apply(ApplyPlan{.plan = decision.plan});
      for (const PlaceGang& gang : decision.plan.place) {
        ASSERT_NO_FATAL_FAILURE(OnStart(gang.job_id)) << gang.reason;
      }
      for (const StopGang& stop : decision.plan.stop) {
        if (world().FindJob(stop.job_id)->state != JobState::kRecovering) continue;
        history_.End(stop.job_id, FailureClass::kPreempted);
        ++stopped_;
      }
    }
  }

  void OnStart(uint64_t id) {
    const Job& job = *world().FindJob(id);
    ASSERT_EQ(job.state, JobState::kStarting) << job.message;
    started_.emplace(id, job.current->started);
    ends_[id] = history_.context().now + left_[id];
    history_.Run(id);
  }

  // The next end, or when the scheduler wants to look again.
  bool Advance() {
    for (uint64_t id : *world().active_jobs) {
      if (!world().FindJob(id)->has_live_attempt()) left_[id] = Left(id);
    }
    absl::Duration next = due_at_;
    for (const auto& [id, end] : ends_) {
      if (world().FindJob(id)->has_live_attempt()) next = std::min(next, end);
    }
    if (next == absl::InfiniteDuration()) return false;
    history_.Advance(std::max(next - history_.context().now, absl::Milliseconds(1)));
    for (const auto& [id, end] : std::map(ends_)) {
      if (!world().FindJob(id)->has_live_attempt() || end > history_.context().now) continue;
      history_.End(id, FailureClass::kNone);
    }
    const ScheduleContext now = history_.context();
    history_.Apply(Findings{FindPassedLimits(world(), {now.wall, now.now})});
    return true;
  }

  absl::Duration Left(uint64_t id) const {
    return ExpectedRunTimeLeft(world(), *world().FindJob(id));
  }

  RandomHistory history_{GetParam(), {.failures = false, .declared = true}};
  Scheduler scheduler_;
  absl::Duration due_at_ = absl::InfiniteDuration();
  std::map<uint64_t, absl::Duration> left_;
  std::map<uint64_t, absl::Duration> ends_;  // since boot
  std::map<uint64_t, absl::Time> started_;   // since the forecasts
  // Tells all that wait when they will start, and lets it come.
  void CheckStarts(size_t least_known) {
    std::map<uint64_t, Explanation> told;
    for (uint64_t id : *world().active_jobs) {
      Explanation e = Explain(world(), id, history_.context());
      if (e.waits) told[id] = std::move(e);
    }
    started_.clear();
    ASSERT_NO_FATAL_FAILURE(Settle());
    for (int i = 0; i < kMaxMoments && Advance(); ++i) ASSERT_NO_FATAL_FAILURE(Settle());
    size_t known = 0;
    for (const auto& [id, e] : told) {
      const auto start = started_.find(id);
      const absl::Time real = start == started_.end() ? absl::InfiniteFuture() : start->second;
      EXPECT_EQ(e.start, real) << "job " << id << ": " << e.why_unknown << "\n" << Print(e);
      known += e.start != absl::InfiniteFuture();
      EXPECT_EQ(e.start == absl::InfiniteFuture(), !e.why_unknown.empty());
    }
    EXPECT_GE(known, least_known);
    RecordProperty("stopped", stopped_);
  }

  int stopped_ = 0;
};

TEST_P(OutlookPropertyTest, TheTimeThatIsToldIsTheTimeAtWhichItStarts) {
  for (int step = 0; step < 60; ++step) history_.Step(/*more_jobs=*/true);
  for (uint64_t id : *world().active_jobs) left_[id] = Left(id);
  ASSERT_GT(world().active_jobs->size(), 10u);
  CheckStarts(9);
}

// Likewise while some run, and after the wall clock was set.
TEST_P(OutlookPropertyTest, WhoSetsTheWallClockChangesNothingOfIt) {
  for (int step = 0; step < 60; ++step) history_.Step(/*more_jobs=*/true);
  for (uint64_t id : *world().active_jobs) left_[id] = Left(id);
  ASSERT_NO_FATAL_FAILURE(Settle());
  history_.Advance(absl::Seconds(20));
  history_.SetClock(GetParam() % 2 == 0 ? absl::Hours(1) : absl::Hours(-1));
  CheckStarts(1);
}

INSTANTIATE_TEST_SUITE_P(Seeds, OutlookPropertyTest, ::testing::Range<uint64_t>(1, 31));

}  // namespace
}  // namespace muster::controller
