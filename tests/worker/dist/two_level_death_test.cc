// Ranks of two hosts that are processes: whichever of them is killed, all others fail.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <exception>

#include "tests/support/status_matchers.h"
#include "tests/worker/dist/forked_ranks.h"
#include "worker/dist/collectives.h"

namespace muster::worker {
namespace {

using muster::testing::FolderKeyValue;
using muster::testing::ForkedRanks;

// Small and large sums for ever; says in the store when a few are done, so that the test may
// strike.
absl::Status SumForEver(const std::shared_ptr<FolderKeyValue>& store,
                        const CollectivesOptions& options) {
  at::set_num_threads(1);
  ::signal(SIGPIPE, SIG_IGN);  // as muster-trainer does
  try {
    const auto gang = MakeCollectives(store, options);
    if (!gang.ok()) return gang.status();
    if ((*gang)->transport().find("two_level ") != 0)
      return absl::InternalError((*gang)->transport());
    for (int turn = 0;; ++turn) {
      at::Tensor small = at::ones({5}), large = at::ones({200'000});
      (*gang)->AllReduceSum(small);
      (*gang)->AllReduceSum(large);
      if (large[199'999].item<float>() != static_cast<float>(options.world_size))
        return absl::DataLossError("a wrong sum");
      if (turn == 5) (void)store->Set(absl::StrCat("running", options.rank), "");
    }
  } catch (const std::exception& error) {
    return absl::UnavailableError(error.what());
  }
}

// Ranks that sum for ever, and are about it when the constructor returns.
class SummingRanks : public ForkedRanks {
 public:
  SummingRanks(const std::vector<std::string>& addresses, absl::Duration timeout)
      : ForkedRanks(static_cast<int>(addresses.size()),
                    [&](const std::shared_ptr<FolderKeyValue>& store, int rank) {
                      CollectivesOptions options;
                      options.rank = rank;
                      options.world_size = static_cast<int>(addresses.size());
                      options.advertise_address = addresses[rank];
                      options.timeout = timeout;
                      return SumForEver(store, options);
                    }) {
    for (size_t rank = 0; rank < addresses.size(); ++rank)
      EXPECT_OK(store().Get(absl::StrCat("running", rank), absl::Minutes(1)));
  }
};

void KillEachInTurn(const std::vector<std::string>& addresses) {
  const int world = static_cast<int>(addresses.size());
  for (int victim = 0; victim < world; ++victim) {
    SummingRanks ranks(addresses, absl::Minutes(5));
    const absl::Time killed = absl::Now();
    ranks.Signal(victim, SIGKILL);
    for (int rank = 0; rank < world; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(ranks.Wait(rank), absl::StatusCode::kUnavailable);
    }
    // Far from the five minutes of the timeout.
    EXPECT_LT(absl::Now() - killed, absl::Minutes(1));
    std::printf("%d ranks, rank %d killed: all others had failed %s later\n", world, victim,
                absl::FormatDuration(absl::Now() - killed).c_str());
  }
}

TEST(TwoLevel, ARankKilledOnOneHostFailsThoseOfAllHosts) {
  KillEachInTurn({"127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"});
}

TEST(TwoLevel, ARankKilledFailsTheOthersWhereHostsHaveUnequalRanks) {
  KillEachInTurn({"127.0.0.1", "127.0.0.1", "127.0.0.2"});
}

// Alive, so no socket closes and no process ends: the deadline ends the wait, on both hosts.
TEST(TwoLevel, ARankThatStandsStillRunsAllOthersIntoTheDeadline) {
  const std::vector<std::string> addresses = {"127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"};
  for (const int victim : {0, 3}) {
    SummingRanks ranks(addresses, absl::Seconds(10));
    const absl::Time stopped = absl::Now();
    ranks.Signal(victim, SIGSTOP);
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(ranks.Wait(rank), absl::StatusCode::kUnavailable);
    }
    std::printf("rank %d stopped: all others had failed %s later\n", victim,
                absl::FormatDuration(absl::Now() - stopped).c_str());
  }
}

}  // namespace
}  // namespace muster::worker
