#include "worker/dist/collectives.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "tests/worker/dist/gang.h"
#include "worker/train/failure.h"
#include "worker/train/torch_guard.h"

namespace muster::worker {
namespace {

using muster::testing::RunGang;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
    const auto body = [&](std::unique_ptr<Collectives> gang) {
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
    const auto body = [&](std::unique_ptr<Collectives> gang) {
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
  const auto body = [&](std::unique_ptr<Collectives> gang) {
    transports[gang->rank()] = gang->transport();
  };
  EXPECT_THAT(RunGang(2, body), Each(""));
  EXPECT_THAT(transports, Each("shared_memory"));
}

// loss = sum(w * x) with x = rank + 1: the gradient of w is x, and its weighted mean is known.
TEST(GradientSync, GivesEveryRankTheWeightedMeanAndTheControlNumbers) {
  for (const int world : {1, 2, 3}) {
    std::vector<std::vector<double>> seen(world);
    const auto errors = RunGang(world, [&](std::unique_ptr<Collectives> gang) {
      const int rank = gang->rank();
      at::Tensor a = at::ones({300}).requires_grad_();
      at::Tensor b = at::ones({200}).requires_grad_();
      // Buckets so small that there are several.
      auto sync = gang->MakeGradientSync(
          {a, b}, {.control_size = 2, .first_bucket_bytes = 64, .bucket_bytes = 900});
      for (int step = 0; step < 3; ++step) {
        sync->BeginStep();
        const at::Tensor loss = a.mul(rank + 1.0).sum().add(b.mul(10.0 * (step + 1)).sum());
        sync->Backward(loss, at::tensor(2.0, at::kFloat),
                       at::tensor({static_cast<double>(rank), 1.0 * step}, at::kFloat));
      }
      seen[rank] = {sync->gradients()[0][299].item<double>(),
                    sync->gradients()[1][0].item<double>(), sync->control()[0].item<double>(),
                    sync->control()[1].item<double>()};
    });
    EXPECT_THAT(errors, Each(""));
    const double mean_rank = (world - 1) / 2.0;
    EXPECT_THAT(seen, Each(ElementsAre(2 * (mean_rank + 1), 60.0, mean_rank, 2.0)));
  }
}

// Three backward passes a step, of which only the last exchanges: their sum, averaged over the
// ranks.
TEST(GradientSync, AddsWhatWasAccumulatedBeforeTheExchange) {
  for (const int world : {1, 2, 3}) {
    std::vector<std::vector<double>> seen(world);
    const auto errors = RunGang(world, [&](std::unique_ptr<Collectives> gang) {
      const double mine = gang->rank() + 1.0;
      at::Tensor a = at::ones({300}).requires_grad_();
      at::Tensor b = at::ones({200}).requires_grad_();
      auto sync = gang->MakeGradientSync(
          {a, b}, {.control_size = 1, .first_bucket_bytes = 64, .bucket_bytes = 900});
      for (int step = 0; step < 3; ++step) {
        sync->BeginStep();
        for (const double part : {1.0, 10.0, 100.0}) {
          const at::Tensor loss = a.mul(mine).sum().add(b.sum());
          const at::Tensor weight = at::tensor(part, at::kFloat);
          if (part < 100) {
            sync->Accumulate(loss, weight);
            // Nothing has been exchanged yet.
            EXPECT_EQ(a.grad()[0].item<double>(), part == 1 ? mine : 11 * mine);
          } else {
            sync->Backward(loss, weight, at::tensor({mine}, at::kFloat));
          }
        }
      }
      seen[gang->rank()] = {sync->gradients()[0][299].item<double>(), a.grad()[0].item<double>(),
                            sync->gradients()[1][0].item<double>(),
                            sync->control()[0].item<double>()};
    });
    EXPECT_THAT(errors, Each(""));
    const double mean = (world + 1) / 2.0;
    EXPECT_THAT(seen, Each(ElementsAre(111 * mean, 111 * mean, 111.0, mean)));
  }
}

}  // namespace
}  // namespace muster::worker
