// muster_sim: simulates whole Musters, one seed each, and says which promise was broken.
#include "CLI/CLI.hpp"
#include "common/base/log.h"
#include "tests/sim/run_seeds.h"

int main(int argc, char** argv) {
  muster::SetLogProgram("muster_sim");
  muster::SetLogLevel(muster::LogLevel::kError);
  muster::sim::SeedFlags flags;
  CLI::App app("Simulates whole Musters from seeds and holds them against what Muster promises.");
  muster::sim::AddSeedFlags(app, flags);
  CLI11_PARSE(app, argc, argv);
  return muster::sim::RunSeeds(flags);
}
