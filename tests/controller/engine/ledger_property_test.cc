// Random lives of a small cluster: whatever happens, in whatever order, and wherever the controller
// is killed, each job's labels add up to what its ranks held, and what was settled stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "controller/model/ledger_rules.h"
#include "tests/support/controller_fixture.h"
#include "tests/support/model_invariants.h"

namespace muster::controller {
namespace {

using ::testing::IsEmpty;

class LedgerPropertyTest : public ::muster::testing::ControllerFixture,
                           public ::testing::WithParamInterface<int> {
 protected:
  static constexpr int kSteps = 150;
  static constexpr int kWorkers = 3;

  // Gangs grow and shrink within the minutes that a life lasts.
  LedgerPropertyTest() {
    elastic_ = {.grow_after = absl::Seconds(10),
                .grow_gain = 0.25,
                .restart_cost = absl::Seconds(1),
                .shrink_after = absl::Seconds(10)};
  }

  uint64_t Pick(uint64_t below) { return random_() % below; }

  void Live() {
    for (int i = 0; i < kWorkers; ++i) {
      agents_.push_back(ConnectNew(absl::StrCat("worker-", i), 2));
    }
    for (int i = 0; i < kSteps; ++i) {
      StepOnce();
      Check(i);
    }
  }

  void StepOnce() {
    Agent& agent = agents_[Pick(agents_.size())];
    switch (Pick(12)) {
      case 0:
        if (jobs_.size() < 6) SubmitOne();
        return;
      case 1:
        return Control();
      case 2:
        return Kill(agent);
      case 3:
        return Replace(agent);
      case 4:
        return RestartAll();
      case 5:
        if (Pick(2) == 0) clock_.JumpWall(absl::Seconds(Pick(2000)) - absl::Seconds(1000));
        return;
      case 6:
        return End(agent);
      default:
        Obey(agent);
        Train(agent);
        // The clock of a test may be finer than what is stored.
        clock_.Advance(absl::Nanoseconds(Pick(20'000'000'000)) / 4);
        Beat(agent);
    }
  }

  // Of any size, some elastic, some before the others.
  void SubmitOne() {
    const auto ranks = static_cast<uint32_t>(1 + Pick(3));
    const auto slots = static_cast<uint32_t>(1 + Pick(2));
    const auto more = static_cast<uint32_t>(Pick(2) * Pick(4));
    jobs_.push_back(Submit({.min_ranks = ranks,
                            .max_ranks = ranks + more,
                            .slots_per_rank = slots,
                            .progress_timeout = absl::Seconds(40),
                            .priority = static_cast<int32_t>(Pick(2))}));
  }

  // What a person asks for; much of it does not fit the job's state and is refused.
  void Control() {
    if (jobs_.empty()) return;
    const uint64_t id = jobs_[Pick(jobs_.size())];
    static constexpr ControlJob::Verb kVerbs[] = {
        ControlJob::Verb::kHold,   ControlJob::Verb::kRelease, ControlJob::Verb::kSuspend,
        ControlJob::Verb::kResume, ControlJob::Verb::kResume,  ControlJob::Verb::kRequeue};
    const uint64_t choice = Pick(8);
    if (choice >= 6) {
      if (choice == 7) Cancel(id).IgnoreError();
      return;
    }
    const bool done = Apply(ControlJob{.verb = kVerbs[choice],
                                       .job_id = id,
                                       .actor = "user:ann",
                                       .whole_array = false,
                                       .request_id = absl::StrCat("r", ++requests_)})
                          .status.ok();
    controlled_ += done;
  }

  // Does what it was told, ranks first.
  void Obey(Agent& agent) {
    while (!agent.link->sent.empty()) {
      if (std::holds_alternative<StartAssignment>(agent.link->sent.front().body)) {
        Start(agent);
        continue;
      }
      const bool stop = std::holds_alternative<StopAssignment>(agent.link->sent.front().body);
      if (!stop) {
        agent.link->sent.pop_front();
        continue;
      }
      const auto order = Take<StopAssignment>(agent);
      const std::vector<RankStatus> alive = agent.alive;
      for (const RankStatus& status : alive) {
        const bool meant = status.fence.job_id == order.fence.job_id &&
                           status.fence.attempt == order.fence.attempt;
        if (meant && Pick(4) != 0) {
          ReportExit(agent, status.fence, status.rank, {.stopped = true, .last_step = status.step});
        }
      }
    }
  }

  // The order may be stale by now: then its reports are refused.
  void Start(Agent& agent) {
    const auto start = Take<StartAssignment>(agent);
    for (const auto& rank : start.ranks) {
      agent.alive.push_back({.fence = start.fence, .rank = rank.rank, .phase = "start"});
      Apply(MakeReport(agent, start.fence, rank.rank, RankReport::Kind::kStarted));
      if (Pick(2) == 0) continue;
      Apply(MakeReport(agent, start.fence, rank.rank, RankReport::Kind::kRunning));
    }
  }

  void Train(Agent& agent) {
    static const char* const kPhases[] = {"start", "rendezvous", "load", "train",
                                          "train", "evaluate",   "save", "done"};
    for (RankStatus& status : agent.alive) {
      if (Pick(3) == 0) status.phase = kPhases[Pick(8)];
      if (status.phase == "train") status.step += static_cast<int64_t>(Pick(20));
      status.latest["save_stall_seconds"] = static_cast<double>(Pick(100)) / 100;
      if (status.phase != "train" || Pick(10) != 0) continue;
      Apply(MakeCommit(agent, status.fence, status.step));
    }
  }

  void End(Agent& agent) {
    if (agent.alive.empty()) return;
    const RankStatus status = agent.alive[Pick(agent.alive.size())];
    ReportExit(agent, status.fence, status.rank,
               {.succeeded = Pick(2) == 0, .signal = 0, .exit_code = 1, .last_step = status.step});
  }

  // Silent for longer than anybody waits; the others go on.
  void Kill(Agent& agent) {
    for (int i = 0; i < 8; ++i) {
      clock_.Advance(absl::Seconds(3));
      for (Agent& other : agents_) {
        if (&other != &agent) Beat(other);
      }
    }
    Connect(agent);
  }

  // Its agent starts anew: all ranks there are dead.
  void Replace(Agent& agent) {
    agent = MakeReborn(agent);
    Connect(agent);
  }

  void RestartAll() {
    engine_.reset();
    clock_.Advance(absl::Seconds(Pick(30)));
    Open();
    for (Agent& agent : agents_) {
      agent.link->sent.clear();
      Connect(agent);
    }
  }

  void Check(int step) {
    ASSERT_THAT(testing::ModelFaults(*snapshot()), IsEmpty())
        << "after step " << step << " of seed " << GetParam();
    snapshot()->jobs.ForEach([&](const Job& job) {
      LabelledTime& before = settled_[job.id];
      for (int i = 0; i < kTimeLabelCount; ++i) {
        EXPECT_GE(job.ledger.settled.of[i], before.of[i])
            << "job " << job.id << ", label " << i << ", step " << step << ", seed " << GetParam();
      }
      before = job.ledger.settled;
    });
  }

  // How often a gang was asked to save for the reason.
  int Count(Reason reason) {
    int count = 0;
    snapshot()->jobs.ForEach([&](const Job& job) {
      for (const auto& event : job.events) count += event->reason == reason;
    });
    return count;
  }

  std::mt19937_64 random_{static_cast<uint64_t>(GetParam())};
  std::vector<Agent> agents_;
  std::vector<uint64_t> jobs_;
  std::map<uint64_t, LabelledTime> settled_;
  int requests_ = 0;
  int controlled_ = 0;
};

TEST_P(LedgerPropertyTest, LabelsAddUpToWhatWasHeld) {
  Live();
  RecordProperty("controlled", controlled_);
  RecordProperty("preempted", Count(Reason::kPreemptedByJob));
  RecordProperty("resized", Count(Reason::kResized));
  RecordProperty("suspended", Count(Reason::kSuspendRequested));
}

INSTANTIATE_TEST_SUITE_P(Seeds, LedgerPropertyTest, ::testing::Range(1, 21));

}  // namespace
}  // namespace muster::controller
