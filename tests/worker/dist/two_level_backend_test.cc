// Several hosts, simulated by addresses: sums, broadcasts and gradients as with one transport.
#include "worker/dist/two_level_backend.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/worker/dist/every_size.h"
#include "tests/worker/dist/gang.h"
#include "worker/train/run/failure.h"
#include "worker/train/step/torch_guard.h"

namespace muster::worker {
namespace {

using muster::testing::ExpectBroadcastsFromEveryRank;
using muster::testing::ExpectSumsOfEveryType;
using muster::testing::kSlotBytes;
using muster::testing::RunGang;
using ::testing::Each;
using ::testing::HasSubstr;

// Ranks by the number of their host.
std::vector<std::string> On(const std::vector<int>& hosts) {
  std::vector<std::string> addresses;
  for (const int host : hosts) addresses.push_back(absl::StrCat("127.0.0.", host + 1));
  return addresses;
}

const std::vector<int> kLayouts[] = {{0, 0, 1, 1}, {0, 0, 1},    {0, 1, 1},
                                     {0, 1, 0, 1}, {0, 0, 1, 2}, {0, 0, 1, 1, 2, 2}};

constexpr int64_t kTwoLevelBytes[] = {8, 4096, 64 << 10, kSlotBytes + 8, 3 * kSlotBytes + 24};

TEST(HostLayout, IsWrittenAsTheRanksOfEachHost) {
  EXPECT_EQ(LayoutOf({"a", "a", "b", "b"}).Text(), "0-1,2-3");
  EXPECT_EQ(LayoutOf({"a", "b", "a"}).Text(), "0+2,1");
  EXPECT_EQ(LayoutOf({"a", "b", "a"}).HostOf(2), 0);
  EXPECT_EQ(LayoutOf({"a", "b", "a"}).FewestRanks(), 1u);
  EXPECT_EQ(LayoutOf({"a", "b", "a"}).MostRanks(), 2u);
}

TEST(TwoLevelBackend, SumsEveryTypeAndSizeOverEveryLayout) {
  for (const std::vector<int>& hosts : kLayouts) {
    const int world = static_cast<int>(hosts.size());
    const auto body = [&](std::unique_ptr<Gang> gang) {
      EXPECT_THAT(gang->transport(), HasSubstr("two_level "));
      ExpectSumsOfEveryType(*gang, kTwoLevelBytes);
      gang->Barrier();
    };
    EXPECT_THAT(RunGang(world, body, {}, On(hosts)), Each(""));
  }
}

TEST(TwoLevelBackend, BroadcastsFromEveryRankInEveryLayout) {
  for (const std::vector<int>& hosts : kLayouts) {
    const int world = static_cast<int>(hosts.size());
    const auto body = [&](std::unique_ptr<Gang> gang) {
      ExpectBroadcastsFromEveryRank(*gang, {8, 2 * kSlotBytes + 24});
      std::string text = gang->rank() == 1 ? "from the second" : "replaced";
      gang->BroadcastText(text, 1);
      EXPECT_EQ(text, "from the second");
    };
    EXPECT_THAT(RunGang(world, body, {}, On(hosts)), Each(""));
  }
}

at::Tensor Numbers(int rank, int64_t count) {
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU).clone();
  random.set_current_seed(static_cast<uint64_t>(100 + rank));
  return at::randn({count}, random);
}

// What each rank gets for the sum of random numbers.
std::vector<at::Tensor> RandomSum(const std::vector<int>& hosts, int64_t count) {
  std::vector<at::Tensor> sums(hosts.size());
  const auto body = [&](std::unique_ptr<Gang> gang) {
    at::Tensor value = Numbers(gang->rank(), count);
    gang->AllReduceSum(value);
    sums[gang->rank()] = value;
  };
  EXPECT_THAT(RunGang(static_cast<int>(hosts.size()), body, {}, On(hosts)), Each(""));
  return sums;
}

// Each of `world` terms is rounded at most once per addition: their error grows with the sum of
// their magnitudes.
TEST(TwoLevelBackend, SumsToTheSameBitsOnAllRanksAndAtEveryRunNearTheExactOne) {
  for (const std::vector<int>& hosts : kLayouts) {
    for (const int64_t count : {int64_t{1000}, int64_t{400'000}}) {
      const std::vector<at::Tensor> once = RandomSum(hosts, count);
      at::Tensor exact = Numbers(0, count).to(at::kDouble).zero_();
      at::Tensor magnitude = exact.clone();
      for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) {
        exact.add_(Numbers(rank, count).to(at::kDouble));
        magnitude.add_(Numbers(rank, count).to(at::kDouble).abs());
      }
      const double error =
          once[0].to(at::kDouble).sub(exact).abs().div(magnitude).max().item<double>();
      EXPECT_LE(error, (static_cast<double>(hosts.size()) - 1) * std::ldexp(1, -24));
      for (const at::Tensor& rank : once) EXPECT_TRUE(at::equal(rank, once[0]));
      EXPECT_TRUE(at::equal(RandomSum(hosts, count)[0], once[0]));
    }
  }
}

TEST(TwoLevelBackend, ARankThatLeavesFailsAllOthers) {
  for (int leaver = 0; leaver < 4; ++leaver) {
    std::vector<absl::Status> seen(4);
    const auto body = [&](std::unique_ptr<Gang> gang) {
      const int rank = gang->rank();
      // All have joined before one leaves.
      if (rank == leaver) return gang->Barrier();
      seen[rank] = TorchGuard([&] {
        gang->Barrier();
        for (int turn = 0; turn < 3; ++turn) {
          at::Tensor value = at::ones({40'000});
          gang->AllReduceSum(value);
        }
        return absl::OkStatus();
      });
    };
    EXPECT_THAT(RunGang(4, body, {}, On({0, 0, 1, 1})), Each(""));
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == leaver) continue;
      EXPECT_EQ(FailureClassOf(seen[rank]), kPeerLost) << seen[rank];
    }
  }
}

TEST(TwoLevelBackend, HostsOfOneRankEachUseGlooAlone) {
  const auto body = [](std::unique_ptr<Gang> gang) { EXPECT_EQ(gang->transport(), "gloo"); };
  EXPECT_THAT(RunGang(3, body, {}, On({0, 1, 2})), Each(""));
}

}  // namespace
}  // namespace muster::worker
