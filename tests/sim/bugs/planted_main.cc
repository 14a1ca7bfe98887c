// muster_sim_planted: muster_sim over a core with planted bugs, and how soon it finds each of them.
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_split.h"
#include "common/base/log.h"
#include "tests/sim/bugs/calibration.h"
#include "tests/sim/bugs/planted_bug.h"
#include "tests/sim/run_seeds.h"
#include "tests/sim/sim_controller.h"

int main(int argc, char** argv) {
  muster::SetLogProgram("muster_sim_planted");
  muster::SetLogLevel(muster::LogLevel::kError);
  const std::vector<std::string> bugs = absl::StrSplit(MUSTER_PLANTED_BUGS, ',');
  muster::sim::SeedFlags flags;
  std::string bug;
  bool calibrate = false;
  uint64_t most = 400;
  CLI::App app("Simulates Musters that have a known bug, and says which promise that breaks.");
  muster::sim::AddSeedFlags(app, flags);
  app.add_option("--bug", bug, "this one")->check(CLI::IsMember(bugs));
  app.add_flag("--calibrate", calibrate, "how fast each bug is found");
  app.add_option("--most", most, "with --calibrate: seeds to try for each bug");
  CLI11_PARSE(app, argc, argv);

  // No bug is in what all runs begin with.
  muster::ActivePlantedBug().clear();
  muster::sim::SimController::DiskWithTables();
  if (calibrate) return muster::sim::Calibrate(bug.empty() ? bugs : std::vector{bug}, most);
  muster::ActivePlantedBug() = bug;
  return muster::sim::RunSeeds(flags);
}
