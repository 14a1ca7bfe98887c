// A random history of a small cluster, by the applier's own rules: workers come and go, jobs are
// submitted and end, and what the scheduler decides is applied by the test.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "controller/policy/queue/schedule_context.h"
#include "controller/rules/rules.h"

namespace muster::controller {

class RandomHistory {
 public:
  // What happens besides submits, ends, failures and workers that come and go.
  struct Habits {
    bool people = false;    // hold, suspend, requeue, drain; arrays, memory
    bool failures = true;   // and workers that are lost
    bool declared = false;  // all run times, and jobs run exactly so long
    bool elastic = true;    // ranges of ranks
  };

  explicit RandomHistory(uint64_t seed) : RandomHistory(seed, Habits()) {}
  RandomHistory(uint64_t seed, Habits habits) : seed_(seed), habits_(habits) {
    Snapshot empty;
    empty.term = 1;
    snapshot_ = std::make_shared<const Snapshot>(empty);
    for (int i = 0; i < 4; ++i) AddWorker();
    Apply(SetProject{.project = "p0", .weight = 2, .quota = Quota{.slots = 9, .queued = {}}});
    Apply(SetProject{.project = "p1", .each_user = Quota{.slots = 5, .queued = {}}});
  }

  std::shared_ptr<const Snapshot> Share() const { return snapshot_; }
  const Snapshot& snapshot() const { return *snapshot_; }
  ScheduleContext context() const { return {.now = now_, .wall = wall()}; }
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
        if (habits_.people && Draw(2) == 0) return ActAsPerson();
        if (habits_.failures) LoseOrBringBack();
        return;
      case 2:
      case 3:
      case 4:
      case 5:
        if (more_jobs) SubmitOne();
        return;
      case 6:
        return EndOne(/*succeeds=*/!habits_.failures);
      default:
        if (habits_.people && Draw(6) == 0) return ActAsPerson();
        return EndOne(/*succeeds=*/true);
    }
  }

  void Apply(const Event& event) {
    const IdempotencyIndex no_keys;
    Draft draft(*snapshot_, now_);
    Reduce(draft, event, {.now = wall(), .now_at = now_, .idempotency = &no_keys});
    draft.Changes();  // for what it does to the ledgers
    snapshot_ = draft.Finish();
  }

  // Ends the live attempt of some job, rank by rank.
  void EndOne(bool succeeds) {
    std::vector<uint64_t> live;
    for (uint64_t id : *snapshot_->active_jobs) {
      if (snapshot_->FindJob(id)->has_live_attempt()) live.push_back(id);
    }
    if (live.empty()) return;
    End(live[Draw(live.size())], succeeds ? FailureClass::kNone : FailureClass::kRankKilled);
  }

  // The job's live attempt ends at once; kNone: well.
  void End(uint64_t id, FailureClass failure) {
    const bool succeeds = failure == FailureClass::kNone;
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
      report.stopped = failure == FailureClass::kPreempted;
      report.failure_class = failure;
      if (!HasEnded(rank.state)) Apply(report);
    }
  }

  // The first rank of the job gets on.
  void Run(uint64_t id) {
    const Attempt attempt = *snapshot_->FindJob(id)->current;
    const Rank& rank = attempt.ranks.front();
    RankReport report;
    report.worker = rank.worker;
    report.incarnation = rank.incarnation;
    report.event_seq = ++workers_[rank.worker].event_seq;
    report.fence = {.job_id = id, .attempt = attempt.number, .term = 1};
    report.kind = RankReport::Kind::kRunning;
    Apply(report);
  }

  void Advance(absl::Duration by) { now_ += by; }
  // Somebody sets the wall clock.
  void SetClock(absl::Duration by) { clock_set_by_ += by; }

  static inline const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

 private:
  absl::Time wall() const { return kStart + now_ + clock_set_by_; }

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
    WorkerHello hello;
    if (!agent.incarnation.empty()) hello.predecessors = {agent.incarnation};
    agent.incarnation = absl::StrCat("i", ++incarnations_);
    agent.event_seq = 0;
    agent.lost = false;
    hello.worker = name;
    hello.incarnation = agent.incarnation;
    hello.facts = agent.facts;
    Apply(hello);
  }

  void LoseOrBringBack() {
    auto agent = std::next(workers_.begin(), Draw(workers_.size()));
    if (agent->second.lost) return Hello(agent->first);
    agent->second.lost = true;
    Apply(Findings{
        {WorkerSilent{.worker = agent->first,
                      .incarnation = agent->second.incarnation,
                      .presence = Presence::kLost,
                      .last_seen_at = snapshot_->FindWorker(agent->first)->pulse.last_seen_at}}});
  }

  void SubmitOne() {
    auto settings = std::make_shared<JobSettings>();
    settings->name = absl::StrCat("name", Draw(4));
    settings->project = HasOneProject() ? "p2" : absl::StrCat("p", Draw(3));
    settings->priority = Draw(5) == 0 ? 1 : 0;
    JobNeeds& needs = settings->needs;
    needs.slot_kind = SlotKind::kGpu;
    needs.min_ranks = 1 + Draw(3);
    needs.max_ranks = needs.min_ranks + (habits_.elastic && Draw(4) == 0 ? Draw(3) : 0);
    needs.slots_per_rank = 1 + Draw(2);
    needs.pools = {{Draw(4) == 0 ? "spot" : "default", {}}};
    if (Draw(4) == 0) needs.pools.push_back({"spot", absl::Minutes(2)});
    if (Draw(5) == 0) needs.selector = {{"zone", "x"}};
    if (Draw(6) == 0) needs.gpu_type = "a100";
    if (Draw(5) == 0) needs.cpus_per_rank = 3;
    if (Draw(8) == 0) needs.exclude = {"w1"};
    needs.wait_for_capacity = true;
    if (habits_.declared || Draw(2) == 0) {
      settings->scheduling.expected_run_time = absl::Seconds(30 + Draw(600));
    }
    if (habits_.people && Draw(8) == 0) needs.memory_per_rank = (1 + Draw(4)) << 28;
    if (habits_.people && Draw(10) == 0) settings->scheduling.hold = true;
    std::optional<ArrayRange> array;
    if (habits_.people && Draw(10) == 0) {
      array = {.first = 1, .last = static_cast<uint32_t>(2 + Draw(3)), .at_a_time = 1};
    }
    if (Draw(9) == 0) settings->scheduling.begin = wall() + absl::Seconds(Draw(120));
    if (Draw(9) == 0 && snapshot_->jobs.last_id() > 0) {
      settings->scheduling.after = {
          {.job_id = 1 + Draw(snapshot_->jobs.last_id()), .on = SchedulingSettings::On::kEnd}};
    }
    settings->restart = {.max_restarts = 2,
                         .budgets = {},
                         .backoff = absl::Seconds(20),
                         .max_backoff = absl::Minutes(1),
                         .progress_timeout = absl::Minutes(10)};
    settings->spec = "{}";
    Apply(SubmitJob{.settings = settings,
                    .owner = absl::StrCat("u", Draw(2)),
                    .idempotency_key = "",
                    .array = array});
  }

  void ActAsPerson() {
    if (Draw(4) == 0) {
      auto agent = std::next(workers_.begin(), Draw(workers_.size()));
      Apply(CordonWorker{.worker = agent->first,
                         .cordoned = !snapshot_->FindWorker(agent->first)->cordoned,
                         .reason = "",
                         .actor = "user:u0"});
      return;
    }
    const std::vector<uint64_t>& jobs = *snapshot_->active_jobs;
    if (jobs.empty()) return;
    using Verb = ControlJob::Verb;
    static constexpr Verb kVerbs[] = {Verb::kHold,    Verb::kRelease, Verb::kRelease,
                                      Verb::kSuspend, Verb::kResume,  Verb::kRequeue};
    Apply(ControlJob{.verb = kVerbs[Draw(std::size(kVerbs))],
                     .job_id = jobs[Draw(jobs.size())],
                     .actor = "user:u0",
                     .whole_array = false,
                     .request_id = absl::StrCat("r", drawn_)});
  }

  const uint64_t seed_;
  const Habits habits_;
  uint64_t drawn_ = 0;
  absl::Duration now_ = absl::Hours(1);
  absl::Duration clock_set_by_;
  uint64_t incarnations_ = 0;
  std::map<std::string, Agent> workers_;
  std::shared_ptr<const Snapshot> snapshot_;
};

}  // namespace muster::controller
