// The scheduler against random histories, with the applier's own rules in between: whatever
// happens, one that has followed the history decides as a fresh one does, every gang that it places
// is accepted, no bound is exceeded, nobody delays the head of a line, and everybody runs in the
// end.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "controller/engine/rules.h"
#include "controller/policy/capacity.h"
#include "controller/policy/scheduler.h"
#include "tests/support/model_invariants.h"

namespace muster::controller {
namespace {

class RandomHistory {
 public:
  explicit RandomHistory(uint64_t seed) : seed_(seed) {
    Snapshot empty;
    empty.term = 1;
    snapshot_ = std::make_shared<const Snapshot>(empty);
    for (int i = 0; i < 4; ++i) AddWorker();
    Apply(SetProject{.project = "p0", .weight = 2, .quota = Quota{.slots = 9, .queued = {}}});
    Apply(SetProject{.project = "p1", .each_user = Quota{.slots = 5, .queued = {}}});
  }

  const Snapshot& snapshot() const { return *snapshot_; }
  ScheduleContext context() const { return {.now = now_, .wall = kStart + now_}; }
  uint64_t Draw(uint64_t below) { return SplitMix64(DeriveSeed(seed_, ++drawn_)) % below; }

  // Then nobody's turn changes with what was placed: the order stands.
  bool HasOneProject() const { return seed_ % 2 == 0; }

  // One thing happens.
  void Step(bool more_jobs) {
    now_ += absl::Seconds(Draw(60));
    switch (Draw(10)) {
      case 0:
        if (workers_.size() < 9) AddWorker();
        return;
      case 1:
        return LoseOrBringBack();
      case 2:
      case 3:
      case 4:
      case 5:
        if (more_jobs) SubmitOne();
        return;
      case 6:
        return EndOne(/*succeeds=*/false);
      default:
        return EndOne(/*succeeds=*/true);
    }
  }

  void Apply(const Event& event) {
    const IdempotencyIndex no_keys;
    Draft draft(*snapshot_);
    Reduce(draft, event, {.now = kStart + now_, .now_at = now_, .idempotency = &no_keys});
    snapshot_ = draft.Finish();
  }

  // Ends the live attempt of some job, rank by rank.
  void EndOne(bool succeeds) {
    std::vector<uint64_t> live;
    for (uint64_t id : *snapshot_->active_jobs) {
      if (snapshot_->FindJob(id)->has_live_attempt()) live.push_back(id);
    }
    if (live.empty()) return;
    const uint64_t id = live[Draw(live.size())];
    const Attempt attempt = *snapshot_->FindJob(id)->current;
    for (const Rank& rank : attempt.ranks) {
      RankReport report;
      report.worker = rank.worker;
      report.incarnation = rank.incarnation;
      report.event_seq = ++workers_[rank.worker].event_seq;
      report.fence = {.job_id = id, .attempt = attempt.number, .term = 1};
      report.rank = rank.rank;
      report.kind = RankReport::Kind::kExited;
      report.succeeded = succeeds;
      report.failure_class = succeeds ? FailureClass::kNone : FailureClass::kRankKilled;
      Apply(report);
    }
  }

  static inline const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

 private:
  struct Agent {
    std::string incarnation;
    WorkerFacts facts;
    uint64_t event_seq = 0;
    bool lost = false;
  };

  void AddWorker() {
    const std::string name = absl::StrCat("w", workers_.size());
    Agent agent;
    agent.facts.pool = Draw(3) == 0 ? "spot" : "default";
    if (Draw(2) == 0) agent.facts.labels["zone"] = "x";
    const uint32_t slots = 1 + Draw(8);
    for (uint32_t i = 0; i < slots; ++i) {
      agent.facts.slots.push_back({.index = i,
                                   .kind = SlotKind::kGpu,
                                   .device = Draw(2) == 0 ? "A100" : "H100",
                                   .uuid = "",
                                   .memory_bytes = 0});
    }
    agent.facts.cpus = 4 + Draw(30);
    agent.facts.memory_bytes = 1 << 30;
    workers_[name] = agent;
    Hello(name);
  }

  void Hello(const std::string& name) {
    Agent& agent = workers_[name];
    agent.incarnation = absl::StrCat("i", ++incarnations_);
    agent.event_seq = 0;
    agent.lost = false;
    WorkerHello hello;
    hello.worker = name;
    hello.incarnation = agent.incarnation;
    hello.facts = agent.facts;
    Apply(hello);
  }

  void LoseOrBringBack() {
    auto agent = std::next(workers_.begin(), Draw(workers_.size()));
    if (agent->second.lost) return Hello(agent->first);
    agent->second.lost = true;
    Apply(WorkerSilent{.worker = agent->first,
                       .incarnation = agent->second.incarnation,
                       .presence = Presence::kLost,
                       .last_seen_at = snapshot_->FindWorker(agent->first)->last_seen_at});
  }

  void SubmitOne() {
    auto settings = std::make_shared<JobSettings>();
    settings->name = absl::StrCat("name", Draw(4));
    settings->project = HasOneProject() ? "p2" : absl::StrCat("p", Draw(3));
    settings->priority = Draw(5) == 0 ? 1 : 0;
    JobNeeds& needs = settings->needs;
    needs.slot_kind = SlotKind::kGpu;
    needs.min_ranks = 1 + Draw(3);
    needs.max_ranks = needs.min_ranks + (Draw(4) == 0 ? Draw(3) : 0);
    needs.slots_per_rank = 1 + Draw(2);
    needs.pools = {{Draw(4) == 0 ? "spot" : "default", {}}};
    if (Draw(4) == 0) needs.pools.push_back({"spot", absl::Minutes(2)});
    if (Draw(5) == 0) needs.selector = {{"zone", "x"}};
    if (Draw(6) == 0) needs.gpu_type = "a100";
    if (Draw(5) == 0) needs.cpus_per_rank = 3;
    if (Draw(8) == 0) needs.exclude = {"w1"};
    needs.wait_for_capacity = true;
    if (Draw(2) == 0) settings->scheduling.expected_run_time = absl::Seconds(30 + Draw(600));
    if (Draw(9) == 0) settings->scheduling.begin = kStart + now_ + absl::Seconds(Draw(120));
    if (Draw(9) == 0 && snapshot_->jobs.last_id() > 0) {
      settings->scheduling.after = {
          {.job_id = 1 + Draw(snapshot_->jobs.last_id()), .on = SchedulingSettings::On::kEnd}};
    }
    settings->restart = {.max_restarts = 2,
                         .budgets = {},
                         .backoff = absl::Seconds(20),
                         .max_backoff = absl::Minutes(1),
                         .progress_timeout = absl::Minutes(10)};
    settings->spec_json = "{}";
    Apply(SubmitJob{
        .settings = settings, .owner = absl::StrCat("u", Draw(2)), .idempotency_key = ""});
  }

  const uint64_t seed_;
  uint64_t drawn_ = 0;
  absl::Duration now_ = absl::Hours(1);
  uint64_t incarnations_ = 0;
  std::map<std::string, Agent> workers_;
  std::shared_ptr<const Snapshot> snapshot_;
};

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
  for (const LineHead& head : decision.heads) {
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
            Shape::KeyOf(earlier.settings->needs) == Shape::KeyOf(later.settings->needs);
        const bool ready =
            Admit(now, earlier, history_.context()).verdict == Admission::Verdict::kReady;
        // A shorter one may pass where it delays nobody.
        const bool backfilled = gang.reason.find("does not hold up") != std::string::npos;
        const bool same_pools = later.settings->needs.pools.size() == 1;
        EXPECT_FALSE(alike && ready && same_pools && !backfilled)
            << "job " << later.id << " went before job " << id;
      }
    }
  }

  // Whoever made way for one that is placed now stands in the line again, in its old place.
  bool BringsBackOneThatMadeWay(const Decision& decision) const {
    const Snapshot& now = history_.snapshot();
    for (const PlaceGang& gang : decision.plan.place) {
      for (uint64_t id : *now.active_jobs) {
        const Job& job = *now.FindJob(id);
        if (job.current != nullptr && job.current->yielded_to == gang.job_id) return true;
      }
    }
    return false;
  }

  // With the plan applied each head could start no later than without it.
  void ExpectHeadsNotDelayed(const Decision& decision) {
    if (!history_.HasOneProject() || BringsBackOneThatMadeWay(decision)) return;
    const Decision after = Schedule(history_.snapshot(), history_.context());
    for (const LineHead& head : decision.heads) {
      for (const LineHead& same : after.heads) {
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

INSTANTIATE_TEST_SUITE_P(Seeds, SchedulingPropertyTest, ::testing::Range<uint64_t>(1, 41));

}  // namespace
}  // namespace muster::controller
