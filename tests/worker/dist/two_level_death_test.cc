// Ranks of two hosts that are processes: whichever of them is killed, all others fail.
#include "tests/worker/dist/summing_ranks.h"

namespace muster::worker {
namespace {

using muster::testing::KillEachInTurn;
using muster::testing::SummingOptions;
using muster::testing::SummingRanks;

SummingOptions On(const std::vector<std::string>& addresses) {
  return {.transport = "two_level ", .addresses = addresses};
}

TEST(TwoLevel, ARankKilledOnOneHostFailsThoseOfAllHosts) {
  KillEachInTurn(On({"127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"}));
}

TEST(TwoLevel, ARankKilledFailsTheOthersWhereHostsHaveUnequalRanks) {
  KillEachInTurn(On({"127.0.0.1", "127.0.0.1", "127.0.0.2"}));
}

// Alive, so no socket closes and no process ends: the deadline ends the wait, on both hosts.
TEST(TwoLevel, ARankThatStandsStillRunsAllOthersIntoTheDeadline) {
  SummingOptions options = On({"127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"});
  options.timeout = absl::Seconds(10);
  for (const int victim : {0, 3}) {
    SummingRanks ranks(options);
    const absl::Time stopped = absl::Now();
    ranks.Signal(victim, SIGSTOP);
    ranks.ExpectAllFailBut(victim);
    std::printf("rank %d stopped: all others had failed %s later\n", victim,
                absl::FormatDuration(absl::Now() - stopped).c_str());
  }
}

}  // namespace
}  // namespace muster::worker
