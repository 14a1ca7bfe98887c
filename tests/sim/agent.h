// One life of one agent: the real session, outbox, lease, assignment log, fences, store relay and
// supervisor rules of worker/agent, on virtual time. What the real agent does with processes and
// gRPC is done here with simulated ones: agent.cc, supervisor.cc and rank.cc of worker/agent tell
// the same story.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/metrics/metric_families.h"
#include "tests/sim/bulk_agent.h"
#include "tests/sim/dice.h"
#include "tests/sim/execution.h"
#include "tests/sim/process.h"
#include "tests/sim/storage.h"
#include "tests/sim/trace.h"
#include "worker/agent/connection/session.h"
#include "worker/agent/gang/assignment_log.h"
#include "worker/agent/gang/store_relay.h"
#include "worker/agent/gang/supervisor_rules.h"

namespace muster::sim {

// The agent's side of one rank.
struct AgentRank {
  worker::RankKey key;
  v1::Fence fence;
  std::vector<uint32_t> slots;
  absl::Duration controller_lost_timeout;
  std::shared_ptr<Process> process;
  worker::FirstStep first_step;
  bool running = false;
  bool ended = false;  // itself; a child of it lives on
  bool unkillable = false;
  uint64_t kill_timer = 0;  // from the first SIGKILL
  int64_t step = 0;
  worker::ProgressLine progress;
  std::optional<int64_t> waiting_publish;
  std::optional<worker::StopRequest> stop;
  absl::Duration stop_began;
  worker::StopAction stop_taken = worker::StopAction::kWait;
  uint64_t stop_timer = 0;
  worker::ExitFacts facts;
  RankNumbers numbers;
};

class Agent final : private worker::SessionHandler {
 public:
  struct Host {
    worker::ControlConnector connect;
    std::function<std::shared_ptr<Process>(Process::Setup)> spawn;
    std::function<void()> quit;  // it has left in good order, or was refused
    // The lease was asked and held.
    std::function<void(uint64_t job_id, uint32_t attempt)> on_publish;
    // The controller called a commit durable.
    std::function<void(uint64_t job_id, uint32_t attempt, int64_t step)> on_committed;
    std::function<void(const worker::KnownController& controller)> on_controller;
    // Null: nobody keeps what ranks report.
    std::function<std::unique_ptr<BulkAgent>(Execution& execution)> make_bulk;
  };
  // Of an earlier agent of the data folder.
  struct Past {
    worker::KnownController controller;               // that it knew
    std::vector<std::shared_ptr<Process>> leftovers;  // that SIGKILL did not end
  };
  // `machine` is where it runs.
  Agent(Agenda& agenda, Trace& trace, Storage& storage, Dice dice, std::string machine,
        v1::Hello hello, Past past, Host host);
  ~Agent() override;

  Execution& execution() { return execution_; }
  const std::string& incarnation() const { return hello_.incarnation(); }
  uint32_t slots() const { return static_cast<uint32_t>(hello_.slots_size()); }
  bool stopping() const { return stopping_; }
  bool connected() const { return session_->up(); }
  // It may still publish; one that leaves and has no rank any more publishes nothing.
  bool HoldsLease() const {
    const bool has_left = stopping_ && ranks_.empty();
    return !has_left && session_->LeaseHolds();
  }
  void Start();
  // SIGTERM.
  void BeginStop(absl::Duration grace);

 private:
  void FillHello(v1::Hello& hello) override;
  std::vector<v1::RankStatus> RankStatuses() override;
  std::optional<v1::RootReport> Roots() override;
  std::optional<v1::DataReport> Data() override;
  void OnSessionUp(const v1::Welcome& welcome) override;
  void OnSessionDown() override;
  void OnControllerMessage(const v1::ControllerMessage& message) override;
  void OnLeaseRenewed() override;
  void OnRefused(absl::Status status) override;

  bool TakeAssignment(uint64_t outbox_seq);
  void Acknowledge(uint64_t outbox_seq, const std::string& refusal);
  absl::Status StartRanks(const v1::StartRanks& start);
  void StartOne(const v1::StartRanks& start, const v1::StartRanks::Rank& rank,
                const worker::SpecSettings& settings);
  void StopRanks(const v1::StopRanks& stop);
  void StopAll(const worker::StopRequest& request);
  void AskToSave();
  void OnCheckpointAck(const v1::CheckpointAck& ack);
  void Care(const v1::ControllerMessage& message);
  void Watch(const v1::WatchRoots& roots);
  void LookAtRoots(uint64_t question);
  void LookAtData(const v1::CheckData& check);
  void OnDataLookedAt(const v1::CheckData& check);

  void OnLine(AgentRank& rank, worker::RankLine line);
  void ReportRunning(AgentRank& rank);
  void OnCheckpointLine(AgentRank& rank, const worker::CheckpointLine& line);
  void TryPublish(AgentRank& rank);
  void Stop(AgentRank& rank, worker::StopRequest request);
  void TakeStopStep(AgentRank& rank);
  void Kill(AgentRank& rank);
  void OnKillInVain(const worker::RankKey& key);
  void WatchLeftovers();
  bool IsHeldBack() const;  // by what does not die
  void SayFitAgain();
  void GiveNotice(const std::string& message, absl::Duration grace, bool withdrawn = false);
  void OnLeaderExit(const worker::RankKey& key);
  void OnExit(const worker::RankKey& key, ProcessExit exit);
  void SendRankEvent(v1::RankEvent event);
  void Tick();
  void OnRanksChanged();
  void EndWhenFlushed(absl::Duration patience);

  Agenda& agenda_;
  Trace& trace_;
  Storage& storage_;
  Dice dice_;
  const std::string machine_;
  const v1::Hello hello_;
  const Host host_;
  Execution execution_;
  MetricFamilies families_;
  worker::AssignmentLog assignments_;
  worker::AttemptFences fences_;
  worker::SpecReader specs_;
  worker::StoreRelay store_;
  std::map<worker::RankKey, std::unique_ptr<AgentRank>> ranks_;
  std::unique_ptr<worker::Session> session_;
  std::unique_ptr<BulkAgent> bulk_;
  std::vector<std::shared_ptr<Process>> leftovers_;
  bool leftovers_said_ = false;
  v1::WatchRoots watched_;
  uint64_t question_ = 0;  // +1 with each list of roots
  v1::RootReport roots_;   // as last looked at
  bool roots_said_ = false;
  Dice data_dice_;                                           // of its own: not every seed has data
  uint64_t data_stream_ = 0;                                 // +1 with each session
  std::map<std::string, v1::DataReport::Verdict> verdicts_;  // on this stream, by key
  bool data_said_ = true;
  bool stopping_ = false;
  absl::Duration stop_until_;       // while it stops
  bool awaits_controller_ = false;  // there are ranks whose end is to be told
  bool flushing_ = false;
};

}  // namespace muster::sim
