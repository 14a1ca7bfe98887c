// Runs seeds, each twice and in a process of its own, so that a broken invariant of the code
// (MUSTER_CHECK) is a finding like any other.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "tests/sim/preemption_check.h"

namespace muster::sim {

struct Outcome {
  uint64_t seed = 0;
  uint64_t hash = 0;
  uint64_t jobs = 0;
  PreemptionCheck::Counts preemptions;
  uint64_t clones = 0;  // as RunResult's
  uint64_t names_moved = 0;
  uint64_t undead = 0;
  uint64_t held_back = 0;
  uint64_t children_left = 0;
  uint64_t strays = 0;
  uint64_t archived = 0;
  uint64_t records = 0;
  uint64_t records_lost = 0;
  absl::Duration simulated;  // of one of the two runs
  std::string failure;       // empty: all promises were kept, twice in the same way
};

Outcome RunSeed(uint64_t seed);

// In this process, with every line printed; returns what was broken.
std::string TraceSeed(uint64_t seed);

}  // namespace muster::sim
