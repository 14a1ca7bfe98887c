// Ranks that are processes and have nothing but Gloo: whichever of them is killed, all others fail,
// long before Gloo's timeout.
#include <arpa/inet.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tests/worker/dist/summing_ranks.h"

namespace muster::worker {
namespace {

using muster::testing::FolderKeyValue;
using muster::testing::ForkedRanks;
using muster::testing::KillEachInTurn;

TEST(Gloo, ARankKilledFailsAllOthersHoweverManyThereAre) {
  for (const size_t world : {2, 5}) {
    KillEachInTurn({.transport = "gloo",
                    .addresses = std::vector<std::string>(world, "127.0.0.1"),
                    .gloo = true});
  }
}

TEST(Gloo, ARankKilledThatIsAloneOnItsHostFailsTheOthers) {
  KillEachInTurn({.transport = "gloo", .addresses = {"127.0.0.1", "127.0.0.2", "127.0.0.3"}});
}

// Of the loopback's, one that no other process uses.
in_addr OwnAddress() { return {::htonl(0x7f400000u + static_cast<uint32_t>(::getpid()))}; }

// Of two ranks of that address: the one that connects has it at the other end only.
bool HasAConnectionThatIsFull(in_addr address) {
  const std::string address_as_hex = absl::StrFormat("%08X:", address.s_addr);
  std::ifstream table("/proc/net/tcp");
  for (std::string line; std::getline(table, line);) {
    // number, local address:port, remote, state, tx_queue:rx_queue, ...
    const std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    uint32_t unsent = 0;
    const bool is_between_them =
        absl::StartsWith(fields[1], address_as_hex) || absl::StartsWith(fields[2], address_as_hex);
    if (is_between_them && absl::SimpleHexAtoi(fields[4].substr(0, 8), &unsent) && unsent > 0)
      return true;
  }
  return false;
}

// Rank 0 sends the others the same large numbers again and again.
absl::Status BroadcastForEver(const std::shared_ptr<FolderKeyValue>& store, int rank,
                              CollectivesOptions options) {
  at::set_num_threads(1);
  ::signal(SIGPIPE, SIG_IGN);
  options.rank = rank;
  try {
    const auto gang = Gang::Form(store, options);
    if (!gang.ok()) return gang.status();
    at::Tensor sent = at::ones({16 << 20});
    for (int turn = 0;; ++turn) {
      (*gang)->Broadcast(sent, 0);
      if (rank == 1) (void)store->Set(absl::StrCat("received", turn), "");
    }
  } catch (const std::exception& error) {
    return absl::UnavailableError(error.what());
  }
}

// Stops rank 1 where rank 0 cannot get rid of what it has for it. Between two turns it is let go
// again, for at least one.
bool StopInTheMiddle(ForkedRanks& ranks, in_addr address) {
  for (int turn = 0; turn < 500; ++turn) {
    if (!ranks.store().Get(absl::StrCat("received", turn), absl::Minutes(1)).ok()) return false;
    ranks.Signal(1, SIGSTOP);
    const absl::Time stopped = absl::Now();
    while (absl::Now() - stopped < absl::Milliseconds(100)) {
      if (HasAConnectionThatIsFull(address)) return true;
    }
    ranks.Signal(1, SIGCONT);
  }
  return false;
}

// Gloo has then sent a part of something: when the connection breaks, it tells nobody who waits
// for the rest.
TEST(Gloo, ARankKilledInTheMiddleOfWhatItReceivesFailsTheSender) {
  CollectivesOptions options;
  options.world_size = 2;
  const in_addr address = OwnAddress();
  options.advertise_address = ::inet_ntoa(address);
  options.transport = Transport::kGloo;
  options.timeout = absl::Minutes(5);
  ForkedRanks ranks(2, [&](const std::shared_ptr<FolderKeyValue>& store, int rank) {
    return BroadcastForEver(store, rank, options);
  });
  ASSERT_TRUE(StopInTheMiddle(ranks, address));
  const absl::Time killed = absl::Now();
  ranks.Signal(1, SIGKILL);
  EXPECT_EQ(ranks.Wait(0), absl::StatusCode::kUnavailable);
  EXPECT_LT(absl::Now() - killed, absl::Minutes(1));
  std::printf("the sender failed %s after the kill\n",
              absl::FormatDuration(absl::Now() - killed).c_str());
}

// What this rank did last is on its way to the others when it ends.
TEST(Gloo, RanksThatEndAtDifferentTimesFailNobody) {
  constexpr int kRanks = 4;
  ForkedRanks ranks(kRanks, [](const std::shared_ptr<FolderKeyValue>& store, int rank) {
    at::set_num_threads(1);
    ::signal(SIGPIPE, SIG_IGN);
    CollectivesOptions options;
    options.rank = rank;
    options.world_size = kRanks;
    options.transport = Transport::kGloo;
    try {
      for (int life = 0; life < 4; ++life) {
        options.prefix = absl::StrCat("life", life, "/");
        const auto gang = Gang::Form(store, options);
        if (!gang.ok()) return gang.status();
        at::Tensor sent = at::ones({2 << 20});
        (*gang)->AllReduceSum(sent);
        (*gang)->Broadcast(sent, life % kRanks);
      }
    } catch (const std::exception& error) {
      return absl::UnavailableError(error.what());
    }
    return absl::OkStatus();
  });
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(ranks.Wait(rank), absl::StatusCode::kOk);
}

}  // namespace
}  // namespace muster::worker
