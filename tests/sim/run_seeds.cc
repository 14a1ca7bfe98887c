#include "tests/sim/run_seeds.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/sim/named_seeds.h"
#include "tests/sim/runner.h"

namespace muster::sim {
namespace {

struct Totals {
  uint64_t seeds = 0;
  uint64_t jobs = 0;
  absl::Duration simulated;
  PreemptionCheck::Counts preemptions;
  uint64_t clones = 0;
  uint64_t names_moved = 0;
  uint64_t undead = 0;
  uint64_t held_back = 0;
  uint64_t children_left = 0;
  uint64_t strays = 0;
  uint64_t archived = 0;
  uint64_t records = 0;
  uint64_t records_lost = 0;
  std::vector<uint64_t> broken;
};

void Count(Totals& totals, const Outcome& outcome) {
  ++totals.seeds;
  totals.jobs += outcome.jobs;
  totals.simulated += 2 * outcome.simulated;
  totals.preemptions.preempted += outcome.preemptions.preempted;
  totals.preemptions.shrunk += outcome.preemptions.shrunk;
  totals.preemptions.grown += outcome.preemptions.grown;
  totals.preemptions.came_back_larger += outcome.preemptions.came_back_larger;
  totals.preemptions.most_in_vain =
      std::max(totals.preemptions.most_in_vain, outcome.preemptions.most_in_vain);
  totals.clones += outcome.clones;
  totals.names_moved += outcome.names_moved;
  totals.undead += outcome.undead;
  totals.held_back += outcome.held_back;
  totals.children_left += outcome.children_left;
  totals.strays += outcome.strays;
  totals.archived += outcome.archived;
  totals.records += outcome.records;
  totals.records_lost += outcome.records_lost;
  if (outcome.failure.empty()) return;
  totals.broken.push_back(outcome.seed);
  std::printf("seed %lu: %s\n", static_cast<unsigned long>(outcome.seed), outcome.failure.c_str());
  std::fflush(stdout);
}

int Report(const Totals& totals, absl::Duration took) {
  const double hours = absl::ToDoubleHours(totals.simulated);
  std::printf(
      "%lu seeds, each twice: %lu jobs, %.1f simulated hours in %.1f s (%.0f hours a minute);"
      " %lu broken\n",
      static_cast<unsigned long>(totals.seeds), static_cast<unsigned long>(totals.jobs), hours,
      absl::ToDoubleSeconds(took), hours / absl::ToDoubleMinutes(took),
      static_cast<unsigned long>(totals.broken.size()));
  const PreemptionCheck::Counts& stops = totals.preemptions;
  std::printf(
      "gangs stopped for others or to grow: %lu preempted, %lu shrunk, %lu to grow, of which %lu"
      " came back larger; one at most %u times in a row without a step between\n",
      static_cast<unsigned long>(stops.preempted), static_cast<unsigned long>(stops.shrunk),
      static_cast<unsigned long>(stops.grown), static_cast<unsigned long>(stops.came_back_larger),
      stops.most_in_vain);
  std::printf(
      "%lu machines were cloned, %lu names went from one machine to another, %lu processes did not"
      " die of SIGKILL, %lu agents came up beside such a one\n",
      static_cast<unsigned long>(totals.clones), static_cast<unsigned long>(totals.names_moved),
      static_cast<unsigned long>(totals.undead), static_cast<unsigned long>(totals.held_back));
  std::printf(
      "%lu ranks left a child behind; %lu checkpoints were published when their attempts were over;"
      " jobs were archived %lu times; %lu records of metrics were taken, of which %lu were lost as"
      " the design allows\n",
      static_cast<unsigned long>(totals.children_left), static_cast<unsigned long>(totals.strays),
      static_cast<unsigned long>(totals.archived), static_cast<unsigned long>(totals.records),
      static_cast<unsigned long>(totals.records_lost));
  return totals.broken.empty() ? 0 : 1;
}

void RunRange(uint64_t first, uint64_t end, absl::Duration budget, Totals& totals) {
  const absl::Time began = absl::Now();
  for (uint64_t seed = first; seed < end && absl::Now() - began < budget; ++seed) {
    Count(totals, RunSeed(seed));
  }
}

void RunNamed(Totals& totals) {
  for (const NamedSeed& named : kNamedSeeds) {
    std::printf("seed %lu once found: %s\n", static_cast<unsigned long>(named.seed), named.found);
    Count(totals, RunSeed(named.seed));
  }
}

int Usage(const char* what) {
  std::fprintf(stderr, "%s; see --help\n", what);
  return 2;
}

}  // namespace

void AddSeedFlags(CLI::App& app, SeedFlags& flags) {
  app.add_option("--seed", flags.seed, "one seed");
  app.add_flag("--trace", flags.trace, "with --seed: print all that happens");
  app.add_option("--seeds", flags.seeds, "A:B, from A to before B");
  app.add_option("--minutes", flags.minutes, "as many seeds as fit")->envname("MUSTER_SIM_MINUTES");
  app.add_option("--first", flags.first, "with --minutes: the first seed")
      ->envname("MUSTER_SIM_FIRST");
  app.add_flag("--regressions", flags.regressions, "the seeds that once found a bug");
}

int RunSeeds(const SeedFlags& flags) {
  if (flags.trace) return TraceSeed(flags.seed).empty() ? 0 : 1;
  const absl::Time began = absl::Now();
  Totals totals;
  if (flags.regressions) RunNamed(totals);
  if (flags.seed != 0) {
    RunRange(flags.seed, flags.seed + 1, absl::InfiniteDuration(), totals);
  } else if (!flags.seeds.empty()) {
    const std::vector<std::string> parts = absl::StrSplit(flags.seeds, ':');
    uint64_t first = 0;
    uint64_t end = 0;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &first) ||
        !absl::SimpleAtoi(parts[1], &end)) {
      return Usage("--seeds wants A:B, the first and one past the last");
    }
    RunRange(first, end, absl::InfiniteDuration(), totals);
  } else if (flags.minutes > 0) {
    RunRange(flags.first, ~uint64_t{0}, absl::Minutes(flags.minutes), totals);
  } else if (!flags.regressions) {
    return Usage("say which seeds");
  }
  return Report(totals, absl::Now() - began);
}

}  // namespace muster::sim
