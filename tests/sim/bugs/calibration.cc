#include "tests/sim/bugs/calibration.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"
#include "tests/sim/bugs/planted_bug.h"
#include "tests/sim/runner.h"

namespace muster::sim {
namespace {

// Hunts that do not share a seed; the table shows the slowest.
constexpr uint64_t kHunts[] = {1, 100'001, 200'001};
constexpr size_t kMostWords = 110;

struct Hunt {
  uint64_t seeds = 0;
  uint64_t seed = 0;  // that found it; 0: none did
  std::string failure;
};

Hunt Find(uint64_t first, uint64_t most) {
  Hunt hunt;
  while (hunt.seeds < most && hunt.seed == 0) {
    const Outcome outcome = RunSeed(first + hunt.seeds++);
    if (outcome.failure.empty()) continue;
    hunt.seed = outcome.seed;
    hunt.failure = outcome.failure;
  }
  return hunt;
}

}  // namespace

int Calibrate(const std::vector<std::string>& bugs, uint64_t most) {
  int missed = 0;
  std::printf(
      "| planted bug | seeds until found, three hunts | the slowest hunt's words |\n"
      "|---|---|---|\n");
  for (const std::string& bug : bugs) {
    ActivePlantedBug() = bug;
    std::string counts;
    Hunt slowest;
    for (const uint64_t first : kHunts) {
      const Hunt hunt = Find(first, most);
      if (hunt.seed == 0) ++missed;
      absl::StrAppendFormat(&counts, "%s%s%d", counts.empty() ? "" : ", ",
                            hunt.seed == 0 ? "not in " : "", hunt.seeds);
      if (hunt.seeds > slowest.seeds) slowest = hunt;
    }
    std::string words = slowest.failure.substr(0, kMostWords);
    std::replace(words.begin(), words.end(), '|', '/');
    std::printf("| `%s` | %s | seed %lu: %s |\n", bug.c_str(), counts.c_str(),
                static_cast<unsigned long>(slowest.seed), words.c_str());
    std::fflush(stdout);
  }
  return missed == 0 ? 0 : 1;
}

}  // namespace muster::sim
