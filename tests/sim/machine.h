// One machine with an agent on it: it boots, crashes, is paused, gets a spot notice, goes away and
// comes back. Clones of it come under its name, with a copy of its data folder. It knows the truth
// about its processes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/agent.h"
#include "tests/sim/agent_disk.h"
#include "tests/sim/invariants.h"
#include "tests/sim/metrics_model.h"
#include "tests/sim/network.h"
#include "tests/sim/sim_controller.h"
#include "worker/agent/identity/identity.h"

namespace muster::sim {

// Where what ranks report is kept: the model of it, and what the machines' spools are like.
struct MetricsWorld {
  MetricsModel model;
  Dice dice;
  worker::SpoolOptions spool;
};

class Machine {
 public:
  struct Neighbours {
    Agenda& agenda;
    Trace& trace;
    Network& network;
    SimController& controller;
    Invariants& invariants;
    Model& model;
    RankWorld& ranks;
    MetricsWorld* metrics;  // null: nobody keeps any
  };
  struct Kind {
    std::string host;      // nobody else's
    std::string name;      // the worker's
    std::string hardware;  // by which its agent knows the machine again; clones may share it
    uint32_t slots = 1;
    std::string pool = "default";
  };
  Machine(Neighbours around, Dice dice, Kind kind);
  ~Machine();

  const std::string& host() const { return kind_.host; }
  const Kind& kind() const { return kind_; }
  uint32_t slots() const { return kind_.slots; }
  bool up() const { return agent_ != nullptr; }
  // A process lives here that SIGKILL did not end.
  bool has_undead() const;
  void CopyDataFolder(const Machine& from);
  // The agent with this incarnation runs here, and may still publish.
  bool HoldsLease(const std::string& incarnation) const;

  // A new agent kills what an earlier one left, and says hello when that is dead, or does not die.
  void StartAgent();
  // One that joins once everything has healed: it lacks no device.
  void StartWhole() {
    healed_ = true;
    StartAgent();
  }
  void CrashAgent(absl::Duration back_after);
  void CrashMachine(absl::Duration back_after);
  // The whole machine, or its agent alone.
  void Pause(absl::Duration time, bool with_ranks);
  // Told to leave; it is gone after the grace at the latest, and comes back later.
  void Notice(absl::Duration grace, absl::Duration back_after);
  // Of its agent's data folder; nothing where no metrics are kept.
  void FillDisk(absl::Duration time);
  void Heal();
  // At the very end: an agent with a session must have delivered its spool, no other can.
  void SettleSpool();

  void AddLiveProcesses(std::vector<LiveProcess>& out) const;
  void Reap();  // forgets processes that are dead

 private:
  std::shared_ptr<worker::ControlConnection> Connect(worker::ControlHandlers handlers);
  std::unique_ptr<BulkAgent> MakeBulk(Execution& execution, const std::string& incarnation);
  // False: its disk is full.
  bool OpenSpool();
  std::shared_ptr<Process> Spawn(Process::Setup setup);
  void ClearLeftovers(absl::Duration deadline);
  void BeginAgent(std::vector<std::shared_ptr<Process>> leftovers);
  v1::Hello MakeHello(bool is_clear);
  std::string RandomBytes();
  void DropAgent();
  void ComeBack(absl::Duration after);
  void Resume();

  const Neighbours around_;
  Dice dice_;
  const Kind kind_;
  // On its disk, with what stands there.
  struct Spooling {
    explicit Spooling(Dice dice) : disk(dice) {}
    AgentDisk disk;
    SpooledRecords records;
  };
  std::optional<Spooling> spooling_;
  std::unique_ptr<worker::Spool> spool_;  // of the agent that is about to begin
  std::unique_ptr<Agent> agent_;
  std::optional<worker::IdentityRecord> record_;  // of its data folder
  uint64_t boots_ = 0;
  std::vector<std::shared_ptr<Process>> processes_;
  std::weak_ptr<Wire> wire_;
  std::weak_ptr<Wire> bulk_wire_;
  uint64_t life_ = 0;
  bool healed_ = false;
};

}  // namespace muster::sim
