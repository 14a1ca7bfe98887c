// Processes that add up numbers for ever, for tests that kill and stop them.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <exception>

#include "absl/strings/match.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/dist/forked_ranks.h"
#include "worker/dist/gang.h"

namespace muster::testing {

struct SummingOptions {
  std::string transport;               // what that of the gang must begin with
  std::vector<std::string> addresses;  // of each rank
  bool gloo = false;                   // and no shared memory, whatever the addresses
  absl::Duration timeout = absl::Minutes(5);
};

// Says in the store when a few turns are done, so that the test may strike.
inline absl::Status SumForEver(const std::shared_ptr<FolderKeyValue>& store, int rank,
                               const SummingOptions& summing) {
  at::set_num_threads(1);
  ::signal(SIGPIPE, SIG_IGN);  // as muster-trainer does
  worker::CollectivesOptions options;
  options.rank = rank;
  options.world_size = static_cast<int>(summing.addresses.size());
  options.advertise_address = summing.addresses[rank];
  options.timeout = summing.timeout;
  if (summing.gloo) options.transport = worker::Transport::kGloo;
  try {
    const auto gang = worker::Gang::Form(store, options);
    if (!gang.ok()) return gang.status();
    if (!absl::StartsWith((*gang)->transport(), summing.transport))
      return absl::InternalError((*gang)->transport());
    for (int turn = 0;; ++turn) {
      at::Tensor small = at::ones({5}), large = at::ones({200'000});
      (*gang)->AllReduceSum(small);
      (*gang)->AllReduceSum(large);
      if (large[199'999].item<float>() != static_cast<float>(options.world_size))
        return absl::DataLossError("a wrong sum");
      if (turn == 5) (void)store->Set(absl::StrCat("running", rank), "");
    }
  } catch (const std::exception& error) {
    return absl::UnavailableError(error.what());
  }
}

// They are about it when the constructor returns.
class SummingRanks : public ForkedRanks {
 public:
  explicit SummingRanks(const SummingOptions& options)
      : ForkedRanks(static_cast<int>(options.addresses.size()),
                    [&](const std::shared_ptr<FolderKeyValue>& store, int rank) {
                      return SumForEver(store, rank, options);
                    }),
        world_(static_cast<int>(options.addresses.size())) {
    for (int rank = 0; rank < world_; ++rank)
      EXPECT_OK(store().Get(absl::StrCat("running", rank), absl::Minutes(1)));
  }

  // Waits until all others have failed.
  void ExpectAllFailBut(int victim) {
    for (int rank = 0; rank < world_; ++rank) {
      if (rank != victim) {
        EXPECT_EQ(Wait(rank), absl::StatusCode::kUnavailable);
      }
    }
  }

 private:
  const int world_;
};

inline void KillEachInTurn(const SummingOptions& options) {
  const int world = static_cast<int>(options.addresses.size());
  for (int victim = 0; victim < world; ++victim) {
    SummingRanks ranks(options);
    const absl::Time killed = absl::Now();
    ranks.Signal(victim, SIGKILL);
    ranks.ExpectAllFailBut(victim);
    // Far from the five minutes of the timeout.
    EXPECT_LT(absl::Now() - killed, absl::Minutes(1));
    std::printf("%d ranks, rank %d killed: all others had failed %s later\n", world, victim,
                absl::FormatDuration(absl::Now() - killed).c_str());
  }
}

}  // namespace muster::testing
