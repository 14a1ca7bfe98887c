// One simulated world from one seed: a controller, machines, people, a network, a disk and what
// befalls them. A safety phase with faults, in which the invariants hold after every step; then
// everything heals, and every job must come to its end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/invariants.h"
#include "tests/sim/machine.h"
#include "tests/sim/people.h"
#include "tests/sim/sim_controller.h"

namespace muster::sim {

struct RunResult {
  uint64_t seed = 0;
  uint64_t hash = 0;
  uint64_t lines = 0;
  uint64_t jobs = 0;
  PreemptionCheck::Counts preemptions;
  uint64_t clones = 0;
  uint64_t names_moved = 0;    // from one machine to another
  uint64_t undead = 0;         // processes that SIGKILL did not end
  uint64_t held_back = 0;      // agents that came up beside one
  uint64_t children_left = 0;  // by ranks that ended
  uint64_t strays = 0;         // checkpoints that were published when their attempts were over
  uint64_t archived = 0;       // jobs, each time
  uint64_t records = 0;        // of metrics that agents took
  uint64_t records_lost = 0;
  absl::Duration simulated;
  std::string failure;  // empty: all promises were kept
};

class World {
 public:
  World(uint64_t seed, bool print);
  RunResult Run();

 private:
  struct Fault {
    absl::Duration every;
    std::function<void()> failure;
  };
  void Build();
  void Plan();
  void Arm(const Fault& fault);
  void RunUntil(absl::Duration end);
  bool AllEnded() const;
  void Heal();
  Machine& AnyMachine() { return *machines_[dice_.Below(machines_.size())]; }

  void CutSomeone();
  void FillDisk();
  void StepWallClock();
  void Flap();
  void SpotEvent();
  void Clone();
  void AddMachine(Machine::Kind kind);
  void AddSpares();
  void Rot();
  void Unmount();
  void PlanMisreadings();
  void PlanMetrics();
  void CheckMetrics();

  const uint64_t seed_;
  Dice dice_;
  Agenda agenda_;
  Trace trace_;
  Storage storage_;
  Model model_;
  Invariants invariants_;
  Network network_;
  RankWorld ranks_;
  std::optional<Dice> misreadings_;        // not set: nobody reads wrongly
  std::unique_ptr<MetricsWorld> metrics_;  // null: none are kept
  std::unique_ptr<SimController> controller_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::unique_ptr<People> people_;
  std::vector<Fault> faults_;
  size_t clones_ = 0;
  bool healed_ = false;
  uint64_t fillings_ = 0;  // of the disk
};

}  // namespace muster::sim
