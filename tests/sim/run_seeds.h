// What muster_sim and muster_sim_planted have in common: which seeds to run, and the report.
#pragma once

#include <cstdint>
#include <string>

#include "CLI/CLI.hpp"

namespace muster::sim {

struct SeedFlags {
  uint64_t seed = 0;
  std::string seeds;
  uint64_t first = 1;
  double minutes = 0;
  bool trace = false;
  bool regressions = false;
};

void AddSeedFlags(CLI::App& app, SeedFlags& flags);

// Prints what was broken, and how much was simulated. The exit code: 1 when a promise was broken, 2
// when the flags make no sense.
int RunSeeds(const SeedFlags& flags);

}  // namespace muster::sim
