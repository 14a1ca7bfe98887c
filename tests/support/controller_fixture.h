// An engine without threads, on a simulated clock, over a real state.db, with fake agents that do
// as they are told.
//
// A test says what happens (Submit, agent.Finish, Advance, Restart) and reads the published
// snapshot. Restart drops the engine without a clean stop and opens the same files again.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "controller/engine/engine.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::testing {

namespace mc = ::muster::controller;

// Keeps what was sent to one stream.
class FakeLink final : public mc::WorkerLink {
 public:
  void Send(const mc::Assignment& assignment) override { sent.push_back(assignment); }
  void Close(const absl::Status& status) override { closed = status; }

  std::deque<mc::Assignment> sent;
  absl::Status closed;
};

// How a job is described in these tests.
struct JobOptions {
  uint32_t min_ranks = 1;
  uint32_t max_ranks = 0;  // 0: min
  uint32_t slots_per_rank = 1;
  std::string pool = "default";
  mc::SlotKind kind = mc::SlotKind::kCpu;
  std::map<std::string, std::string> selector;
  bool wait_for_capacity = false;
  uint32_t max_restarts = 5;
  absl::Duration backoff = absl::Seconds(1);
  absl::Duration progress_timeout = absl::Minutes(10);
  uint32_t keep_last = 2;
  int32_t priority = 0;
  std::string key;
  std::string spec = "{}";
  std::string name = "job";
  std::string owner = "ann";
  std::string root;  // the checkpoint root that its workers must see; empty: any will do
  std::string data;  // that its workers must have looked at; empty: none
};

// The checkpoint root of jobs that were given none.
inline constexpr char kDefaultRoot[] = "/ckpt";

inline std::shared_ptr<const mc::JobSettings> MakeSettings(const JobOptions& options) {
  auto settings = std::make_shared<mc::JobSettings>();
  settings->name = options.name;
  settings->project = "default";
  settings->priority = options.priority;
  settings->needs.min_ranks = options.min_ranks;
  settings->needs.max_ranks = options.max_ranks == 0 ? options.min_ranks : options.max_ranks;
  settings->needs.slots_per_rank = options.slots_per_rank;
  settings->needs.slot_kind = options.kind;
  settings->needs.pools = {{options.pool, {}}};
  settings->needs.selector = options.selector;
  settings->needs.wait_for_capacity = options.wait_for_capacity;
  settings->needs.root = options.root;
  settings->needs.data = options.data;
  settings->restart = {.max_restarts = options.max_restarts,
                       .budgets = {},
                       .backoff = options.backoff,
                       .max_backoff = absl::Minutes(1),
                       .progress_timeout = options.progress_timeout};
  settings->keep_last = options.keep_last;
  settings->checkpoint_root = options.root.empty() ? kDefaultRoot : options.root;
  settings->spec = options.spec;
  return settings;
}

inline mc::WorkerFacts MakeFacts(uint32_t slots, const std::string& pool = "default",
                                 mc::SlotKind kind = mc::SlotKind::kCpu) {
  mc::WorkerFacts facts;
  facts.version = "0.1.0";
  facts.pool = pool;
  for (uint32_t i = 0; i < slots; ++i) {
    facts.slots.push_back(
        {.index = i, .kind = kind, .device = "cpu", .uuid = "", .memory_bytes = 1});
  }
  facts.cpus = slots;
  facts.memory_bytes = 1u << 30;
  facts.advertise_address = "127.0.0.1";
  return facts;
}

class ControllerFixture : public ::testing::Test {
 protected:
  // One life of one agent.
  struct Agent {
    std::string name;
    std::string incarnation;
    mc::WorkerFacts facts;
    std::shared_ptr<FakeLink> link;
    uint64_t event_seq = 0;
    std::optional<uint64_t> acknowledged = 0;  // of its reports; nullopt: it does not say
    uint64_t last_assignment = 0;              // that it has taken
    std::optional<absl::Time> last_started;    // of the controller that it has served last
    std::vector<mc::RankStatus> alive;
    std::string identity;                   // of its data folder
    std::vector<std::string> predecessors;  // that it has shown to be dead
    bool takes_no_work = false;
    bool checks_data = false;
  };

  void SetUp() override { Open(); }

  mc::EngineOptions Options() {
    mc::EngineOptions options;
    options.data_dir = dir_.path();
    options.threads = false;
    options.max_database_bytes = max_database_bytes_;
    options.elastic = elastic_;
    options.boot = boot_;
    options.archive = archive_;
    options.on_published = [this](const std::shared_ptr<const mc::Snapshot>& snapshot) {
      if (on_published_) on_published_(snapshot);
    };
    return options;
  }

  void Open() {
    auto engine = mc::Engine::Open(Options(), clock_);
    ASSERT_OK(engine);
    engine_ = *std::move(engine);
  }

  // As after a SIGKILL of the controller: nothing is flushed or told.
  void Restart() {
    engine_.reset();
    Open();
  }

  // In steps: no loop sees that the controller stood still.
  void Advance(absl::Duration by) {
    for (; by > kStep; by -= kStep) {
      clock_.Advance(kStep);
      RunUntilIdle();
    }
    clock_.Advance(by);
    RunUntilIdle();
  }
  static constexpr absl::Duration kStep = absl::Seconds(5);

  // All agents see the root of jobs that were given none, which count on it once they have saved.
  void RunUntilIdle() {
    engine_->RunUntilIdle();
    if (!looks_at_default_root_) return;
    for (const auto& [name, life] : links_) {
      mc::RootViews seen;
      std::erase_if(life.link->sent, [&](const mc::Assignment& assignment) {
        const auto* watch = std::get_if<mc::WatchAssignment>(&assignment.body);
        const bool its =
            watch != nullptr && watch->roots.size() == 1 && watch->roots[0].path == kDefaultRoot;
        if (!its) return false;
        const mc::RootToWatch& root = watch->roots[0];
        seen[root.path] = {.identity = root.identity.empty() ? root.claim : root.identity};
        return true;
      });
      if (seen.empty()) continue;
      engine_->Post(mc::WorkerHeartbeat{.worker = name,
                                        .incarnation = life.incarnation,
                                        .ranks = {},
                                        .roots = std::make_shared<const mc::RootViews>(seen)},
                    [](const mc::EventResult&) {});
      return RunUntilIdle();
    }
  }

  mc::EventResult Apply(mc::Event event) {
    mc::EventResult result;
    bool answered = false;
    engine_->Post(std::move(event), [&](const mc::EventResult& r) {
      result = r;
      answered = true;
    });
    RunUntilIdle();
    EXPECT_TRUE(answered);
    return result;
  }

  mc::EventResult TrySubmit(const JobOptions& options) {
    return Apply(mc::SubmitJob{
        .settings = MakeSettings(options), .owner = options.owner, .idempotency_key = options.key});
  }
  uint64_t Submit(const JobOptions& options = {}) {
    const mc::EventResult result = TrySubmit(options);
    EXPECT_OK(result.status);
    return result.job_id;
  }
  absl::Status Cancel(uint64_t job_id) {
    return Apply(mc::CancelJob{.job_id = job_id, .actor = "user:ann"}).status;
  }

  Agent MakeAgent(const std::string& name, uint32_t slots, const std::string& pool = "default",
                  mc::SlotKind kind = mc::SlotKind::kCpu) {
    Agent agent;
    agent.name = name;
    agent.incarnation = absl::StrCat("incarnation-", ++incarnations_);
    agent.identity = absl::StrCat("identity-", incarnations_);
    agent.facts = MakeFacts(slots, pool, kind);
    return agent;
  }

  // The next agent of the same data folder, which has ended what the one before left.
  Agent MakeReborn(const Agent& before) {
    Agent agent = MakeAgent(before.name, 0);
    agent.facts = before.facts;
    agent.identity = before.identity;
    agent.predecessors = {before.incarnation};
    return agent;
  }

  mc::EventResult Connect(Agent& agent, uint64_t last_term = 0,
                          const std::string& last_controller = "") {
    agent.link = std::make_shared<FakeLink>();
    mc::EventResult result;
    engine_->Connect({.worker = agent.name,
                      .incarnation = agent.incarnation,
                      .facts = agent.facts,
                      .last_controller = last_controller,
                      .last_term = last_term,
                      .ranks = agent.alive,
                      .acknowledged_event_seq = agent.acknowledged,
                      .last_assignment_seq = agent.last_assignment,
                      .last_started = agent.last_started,
                      .identity = agent.identity,
                      .predecessors = agent.predecessors,
                      .takes_no_work = agent.takes_no_work,
                      .checks_data = agent.checks_data},
                     agent.link, [&](const mc::EventResult& r) {
                       EXPECT_TRUE(agent.link->sent.empty()) << "sent before the Welcome";
                       result = r;
                     });
    links_[agent.name] = {agent.incarnation, agent.link};
    RunUntilIdle();
    return result;
  }

  Agent ConnectNew(const std::string& name, uint32_t slots) {
    Agent agent = MakeAgent(name, slots);
    EXPECT_OK(Connect(agent).status);
    return agent;
  }

  mc::EventResult Beat(Agent& agent) {
    return Apply(mc::WorkerHeartbeat{
        .worker = agent.name, .incarnation = agent.incarnation, .ranks = agent.alive});
  }

  // What the agent was last asked about checkpoint roots; nothing: it was not asked since.
  std::vector<mc::RootToWatch> TakeWatch(Agent& agent) {
    std::vector<mc::RootToWatch> roots;
    std::erase_if(agent.link->sent, [&](const mc::Assignment& assignment) {
      const auto* watch = std::get_if<mc::WatchAssignment>(&assignment.body);
      if (watch != nullptr) roots = watch->roots;
      return watch != nullptr;
    });
    return roots;
  }
  mc::EventResult SayRoots(Agent& agent, const mc::RootViews& roots) {
    return Apply(mc::WorkerHeartbeat{.worker = agent.name,
                                     .incarnation = agent.incarnation,
                                     .ranks = agent.alive,
                                     .roots = std::make_shared<const mc::RootViews>(roots)});
  }
  // It sees the root that it is asked about, under the identity that it has or gets.
  std::string SeeRoot(Agent& agent) {
    const std::vector<mc::RootToWatch> asked = TakeWatch(agent);
    if (asked.size() != 1) {
      ADD_FAILURE() << agent.name << " was asked about " << asked.size() << " roots";
      return "";
    }
    const std::string identity = asked[0].identity.empty() ? asked[0].claim : asked[0].identity;
    EXPECT_OK(SayRoots(agent, {{asked[0].path, {.identity = identity}}}).status);
    return identity;
  }
  // It does not see it.
  void LoseRoot(Agent& agent, const std::string& path) {
    EXPECT_OK(SayRoots(agent, {{path, {.message = "its marker is not there"}}}).status);
  }

  // Takes the next assignment of kind T and acknowledges it.
  template <typename T>
  T Take(Agent& agent, const std::string& refusal = "") {
    while (!agent.link->sent.empty()) {
      const mc::Assignment assignment = agent.link->sent.front();
      agent.link->sent.pop_front();
      if (!std::holds_alternative<T>(assignment.body)) continue;
      last_seq_ = assignment.seq;
      EXPECT_OK(Apply(mc::AssignmentAcked{.worker = agent.name,
                                          .incarnation = agent.incarnation,
                                          .outbox_seq = assignment.seq,
                                          .refusal = refusal})
                    .status);
      return std::get<T>(assignment.body);
    }
    ADD_FAILURE() << agent.name << " was sent no such assignment";
    return {};
  }
  template <typename T>
  bool WasSent(const Agent& agent) const {
    for (const mc::Assignment& assignment : agent.link->sent) {
      if (std::holds_alternative<T>(assignment.body)) return true;
    }
    return false;
  }

  mc::RankReport MakeReport(Agent& agent, const mc::Fence& fence, uint32_t rank,
                            mc::RankReport::Kind kind) {
    mc::RankReport report;
    report.worker = agent.name;
    report.incarnation = agent.incarnation;
    report.event_seq = ++agent.event_seq;
    report.fence = fence;
    report.rank = rank;
    report.kind = kind;
    report.pid = 100 + rank;
    return report;
  }

  // Takes the start assignment and reports its ranks as started and, if asked, as running.
  mc::StartAssignment StartRanks(Agent& agent, bool running = true) {
    const auto start = Take<mc::StartAssignment>(agent);
    for (const auto& rank : start.ranks) {
      agent.alive.push_back(
          {.fence = start.fence, .rank = rank.rank, .pid = 100 + rank.rank, .phase = "start"});
      EXPECT_OK(
          Apply(MakeReport(agent, start.fence, rank.rank, mc::RankReport::Kind::kStarted)).status);
      if (!running) continue;
      EXPECT_OK(
          Apply(MakeReport(agent, start.fence, rank.rank, mc::RankReport::Kind::kRunning)).status);
    }
    return start;
  }

  struct Exit {
    bool succeeded = false;
    bool stopped = false;
    mc::FailureClass failure_class = mc::FailureClass::kNone;
    int32_t signal = 0;
    int32_t exit_code = 0;
    int64_t last_step = 0;
    std::string message;
    mc::Missing missing = mc::Missing::kNothing;
  };
  mc::EventResult ReportExit(Agent& agent, const mc::Fence& fence, uint32_t rank,
                             const Exit& exit) {
    std::erase_if(agent.alive, [&](const mc::RankStatus& status) {
      return status.fence.job_id == fence.job_id && status.fence.attempt == fence.attempt &&
             status.rank == rank;
    });
    mc::RankReport report = MakeReport(agent, fence, rank, mc::RankReport::Kind::kExited);
    report.succeeded = exit.succeeded;
    report.stopped = exit.stopped;
    report.failure_class = exit.failure_class;
    report.signal = exit.signal;
    report.exit_code = exit.exit_code;
    report.last_step = exit.last_step;
    report.message = exit.message;
    report.missing = exit.missing;
    return Apply(report);
  }

  mc::CheckpointReport MakeCommit(Agent& agent, const mc::Fence& fence, int64_t step,
                                  bool best = false) {
    mc::CheckpointReport report;
    report.worker = agent.name;
    report.incarnation = agent.incarnation;
    report.event_seq = ++agent.event_seq;
    report.fence = fence;
    report.kind = mc::CheckpointReport::Kind::kCommit;
    report.step = step;
    report.path = absl::StrCat(job(fence.job_id).checkpoint_folder(), "/step-", step, ".a",
                               fence.attempt, ".g1");
    report.manifest_sha256 = absl::StrCat("sha-", step);
    report.bytes = 1000;
    report.best = best;
    return report;
  }

  // Takes the next verification and answers it.
  mc::VerifyAssignment AnswerVerify(Agent& agent, bool ok, const std::string& message = "") {
    const auto verify = Take<mc::VerifyAssignment>(agent);
    EXPECT_OK(Apply(mc::VerifyReport{.worker = agent.name,
                                     .incarnation = agent.incarnation,
                                     .event_seq = ++agent.event_seq,
                                     .outbox_seq = last_seq_,
                                     .checkpoint_id = verify.checkpoint_id,
                                     .ok = ok,
                                     .message = message})
                  .status);
    return verify;
  }

  std::shared_ptr<const mc::Snapshot> snapshot() const { return engine_->snapshot(); }
  mc::Job job(uint64_t id) const { return *snapshot()->FindJob(id); }
  mc::JobState state(uint64_t id) const { return snapshot()->FindJob(id)->state; }
  mc::Worker worker(const std::string& name) const { return *snapshot()->FindWorker(name); }

  struct Life {
    std::string incarnation;
    std::shared_ptr<FakeLink> link;
  };

  TempDir dir_;
  SimulatedClock clock_;
  std::map<std::string, Life> links_;  // of each worker's last agent
  bool looks_at_default_root_ = true;
  uint64_t max_database_bytes_ = 0;
  uint64_t boot_ = 0;  // 0: the machine's boot is not known
  mc::ElasticSettings elastic_;
  mc::ArchiveSettings archive_;  // all stay in memory
  // As EngineOptions::on_published; may be set at any time.
  std::function<void(const std::shared_ptr<const mc::Snapshot>&)> on_published_;
  std::unique_ptr<mc::Engine> engine_;
  int incarnations_ = 0;
  uint64_t last_seq_ = 0;
};

}  // namespace muster::testing
