// One machine with an agent on it: it boots, crashes, is paused, gets a spot notice, goes away and
// comes back. It knows the truth about its processes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/agent.h"
#include "tests/sim/invariants.h"
#include "tests/sim/network.h"
#include "tests/sim/sim_controller.h"

namespace muster::sim {

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
  };
  struct Kind {
    std::string name;
    uint32_t slots = 1;
    std::string pool = "default";
  };
  Machine(Neighbours around, Dice dice, Kind kind);
  ~Machine();

  const std::string& name() const { return kind_.name; }
  uint32_t slots() const { return kind_.slots; }
  bool up() const { return agent_ != nullptr; }

  // A new agent, after it has killed what an earlier one left.
  void StartAgent();
  void CrashAgent(absl::Duration back_after);
  void CrashMachine(absl::Duration back_after);
  // The whole machine, or its agent alone.
  void Pause(absl::Duration time, bool with_ranks);
  // Told to leave; it is gone after the grace at the latest, and comes back later.
  void Notice(absl::Duration grace, absl::Duration back_after);
  void Heal();

  void AddLiveProcesses(std::vector<LiveProcess>& out) const;
  void Reap();  // forgets processes that are dead

 private:
  std::shared_ptr<worker::ControlConnection> Connect(worker::ControlHandlers handlers);
  std::shared_ptr<Process> Spawn(Process::Setup setup);
  void DropAgent();
  void ComeBack(absl::Duration after);
  void Resume();

  const Neighbours around_;
  Dice dice_;
  const Kind kind_;
  std::unique_ptr<Agent> agent_;
  std::vector<std::shared_ptr<Process>> processes_;
  std::weak_ptr<Wire> wire_;
  uint64_t life_ = 0;
  bool healed_ = false;
};

}  // namespace muster::sim
