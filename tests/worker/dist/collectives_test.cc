#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "tests/worker/dist/gang.h"
#include "worker/dist/gang.h"
#include "worker/train/run/failure.h"
#include "worker/train/step/torch_guard.h"

namespace muster::worker {
namespace {

using muster::testing::RunGang;
using ::testing::Each;

constexpr Transport kTransports[] = {Transport::kGloo, Transport::kSharedMemory};

CollectivesOptions Over(Transport transport) {
  CollectivesOptions options;
  options.transport = transport;
  return options;
}

TEST(Collectives, SumBroadcastTextAndBarrierOverThreeRanks) {
  for (const Transport transport : kTransports) {
    std::vector<double> sums(3), roots(3);
    std::vector<std::string> texts(3);
    const auto body = [&](std::unique_ptr<Gang> gang) {
      const int rank = gang->rank();
      EXPECT_EQ(gang->transport(), transport == Transport::kGloo ? "gloo" : "shared_memory");
      at::Tensor value = at::full({4}, rank + 1.0, at::kDouble);
      gang->AllReduceSum(value);
      sums[rank] = value[3].item<double>();
      at::Tensor root = at::full({2}, static_cast<double>(rank));
      gang->Broadcast(root, 1);
      roots[rank] = root[0].item<double>();
      std::string text = rank == 0 ? "from the first" : "replaced";
      gang->BroadcastText(text, 0);
      texts[rank] = text;
      gang->Barrier();
    };
    EXPECT_THAT(RunGang(3, body, Over(transport)), Each(""));
    EXPECT_THAT(sums, Each(6.0));
    EXPECT_THAT(roots, Each(1.0));
    EXPECT_THAT(texts, Each("from the first"));
  }
}

TEST(Collectives, ARankThatLeavesFailsTheOthersInsteadOfHangingThem) {
  for (const Transport transport : kTransports) {
    absl::Status lost;
    const auto body = [&](std::unique_ptr<Gang> gang) {
      if (gang->rank() == 1) return;
      lost = TorchGuard([&] {
        at::Tensor value = at::ones({4});
        gang->AllReduceSum(value);
        return absl::OkStatus();
      });
    };
    EXPECT_THAT(RunGang(2, body, Over(transport)), Each(""));
    EXPECT_EQ(FailureClassOf(lost), kPeerLost) << lost;
  }
}

TEST(Collectives, RanksOfOneHostShareMemoryUnlessToldOtherwise) {
  std::vector<std::string> transports(2);
  const auto body = [&](std::unique_ptr<Gang> gang) {
    transports[gang->rank()] = gang->transport();
  };
  EXPECT_THAT(RunGang(2, body), Each(""));
  EXPECT_THAT(transports, Each("shared_memory"));
}

}  // namespace
}  // namespace muster::worker
