// The exchange of gradients, over both transports and in all modes: against one process on the same
// global batch.
#include "worker/dist/strategy/ddp.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <cmath>
#include <thread>

#include "tests/support/status_matchers.h"
#include "tests/worker/dist/gang.h"
#include "worker/dist/process_group.h"
#include "worker/dist/shared_memory/shared_memory_backend.h"

namespace muster::worker {
namespace {

using muster::testing::RunGang;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;

struct GangKind {
  Transport transport;
  int world;
  std::vector<std::string> addresses = {};  // other than one host
};
const GangKind kGangs[] = {
    {Transport::kAuto, 1},
    {Transport::kGloo, 2},
    {Transport::kGloo, 3},
    {Transport::kSharedMemory, 2},
    {Transport::kSharedMemory, 3},
    {Transport::kSharedMemory, 4},
    {Transport::kAuto, 3, {"127.0.0.1", "127.0.0.1", "127.0.0.2"}},
    {Transport::kAuto, 4, {"127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"}}};

// loss = sum(w * x) with x = rank + 1: the gradient of w is x, and its weighted mean is known.
TEST(Ddp, GivesEveryRankTheWeightedMeanAndTheControlNumbers) {
  for (const auto& [transport, world, addresses] : kGangs) {
    std::vector<std::vector<double>> seen(world);
    const auto body = [&](std::unique_ptr<Gang> gang) {
      const int rank = gang->rank();
      at::Tensor a = at::ones({300}).requires_grad_();
      at::Tensor b = at::ones({200}).requires_grad_();
      // Buckets so small that there are several.
      auto sync = gang->MakeStrategy(
          {a, b}, {.control_size = 2, .first_bucket_bytes = 64, .bucket_bytes = 900});
      for (int step = 0; step < 3; ++step) {
        sync->BeginStep();
        const at::Tensor loss = a.mul(rank + 1.0).sum().add(b.mul(10.0 * (step + 1)).sum());
        sync->Backward(loss, at::tensor(2.0, at::kFloat),
                       at::tensor({static_cast<double>(rank), 1.0 * step}, at::kFloat));
        sync->Await();
      }
      seen[rank] = {sync->gradients()[0][299].item<double>(),
                    sync->gradients()[1][0].item<double>(), sync->control()[0].item<double>(),
                    sync->control()[1].item<double>()};
    };
    EXPECT_THAT(RunGang(world, body, {.transport = transport}, addresses), Each(""));
    const double mean_rank = (world - 1) / 2.0;
    EXPECT_THAT(seen, Each(ElementsAre(2 * (mean_rank + 1), 60.0, mean_rank, 2.0)));
  }
}

// Three backward passes a step, of which only the last exchanges: their sum, averaged over the
// ranks.
TEST(Ddp, AddsWhatWasAccumulatedBeforeTheExchange) {
  for (const auto& [transport, world, addresses] : kGangs) {
    std::vector<std::vector<double>> seen(world);
    const auto body = [&](std::unique_ptr<Gang> gang) {
      const double mine = gang->rank() + 1.0;
      at::Tensor a = at::ones({300}).requires_grad_();
      at::Tensor b = at::ones({200}).requires_grad_();
      auto sync = gang->MakeStrategy(
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
            sync->Await();
          }
        }
      }
      seen[gang->rank()] = {sync->gradients()[0][299].item<double>(), a.grad()[0].item<double>(),
                            sync->gradients()[1][0].item<double>(),
                            sync->control()[0].item<double>()};
    };
    EXPECT_THAT(RunGang(world, body, {.transport = transport}, addresses), Each(""));
    const double mean = (world + 1) / 2.0;
    EXPECT_THAT(seen, Each(ElementsAre(111 * mean, 111 * mean, 111.0, mean)));
  }
}

// What one rank of `gang` gets as the gradients of a small network on its share of 24 samples.
std::vector<at::Tensor> NetworkGradients(Gang& gang, bool with_unused) {
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU).clone();
  random.set_current_seed(7);
  const at::Tensor inputs = at::randn({24, 33}, random);
  at::Tensor first = at::randn({40, 33}, random).requires_grad_();
  at::Tensor second = at::randn({5, 40}, random).requires_grad_();
  std::vector<at::Tensor> parameters = {first, second};
  if (with_unused) parameters.insert(parameters.begin() + 1, at::ones({17}).requires_grad_());
  auto sync = gang.MakeStrategy(parameters,
                                {.control_size = 1, .first_bucket_bytes = 64, .bucket_bytes = 900});
  const int64_t share = 24 / gang.world_size();
  for (int step = 0; step < 3; ++step) {
    sync->BeginStep();
    const at::Tensor mine = inputs.narrow(0, share * gang.rank(), share);
    const at::Tensor output = at::linear(at::linear(mine, first).tanh(), second);
    sync->Backward(output.square().mean(), at::tensor(1.0f), at::tensor({2.5f}));
    sync->Await();
  }
  EXPECT_EQ(sync->control().item<float>(), 2.5f);
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& gradient : sync->gradients()) gradients.push_back(gradient.clone());
  return gradients;
}

std::vector<std::vector<at::Tensor>> GradientsOfAllRanks(
    int world, CollectivesOptions options, bool with_unused = false,
    const std::vector<std::string>& addresses = {}) {
  std::vector<std::vector<at::Tensor>> gradients(world);
  const auto body = [&](std::unique_ptr<Gang> gang) {
    gradients[gang->rank()] = NetworkGradients(*gang, with_unused);
  };
  EXPECT_THAT(RunGang(world, body, options, addresses), Each(""));
  return gradients;
}

struct Mode {
  const char* name;
  Compression compression;
  double bound;  // of the error, relative to the largest gradient of the tensor
};

TEST(Ddp, EqualsOneProcessOnTheGlobalBatchWithinTheBoundOfItsCompression) {
  const std::vector<at::Tensor> whole = GradientsOfAllRanks(1, {})[0];
  // Each number is rounded once per rank, once for the sum of a host and once for that of all: to
  // 11 and to 8 bits.
  for (const Mode& mode : {Mode{"none", Compression::kNone, 1e-6},
                           Mode{"fp16", Compression::kFp16, std::ldexp(1, -10)},
                           Mode{"bf16", Compression::kBf16, std::ldexp(1, -7)}}) {
    for (const auto& [transport, world, addresses] : kGangs) {
      if (world == 1) continue;
      const auto gradients =
          GradientsOfAllRanks(world, {.transport = transport, .compression = mode.compression},
                              /*with_unused=*/false, addresses);
      for (size_t i = 0; i < whole.size(); ++i) {
        const double largest = whole[i].abs().max().item<double>();
        const double error = gradients[0][i].sub(whole[i]).abs().max().item<double>() / largest;
        EXPECT_LE(error, mode.bound) << mode.name << " over " << world << " ranks";
        if (mode.compression != Compression::kNone) {
          EXPECT_GT(error, 1e-6) << mode.name << " compresses nothing";
        }
        EXPECT_EQ(gradients[0][i].scalar_type(), at::kFloat);
        for (const auto& rank : gradients) EXPECT_TRUE(at::equal(rank[i], gradients[0][i]));
      }
    }
  }
}

// As on a GPU, but over shared memory. The numbers are exact in every type.
TEST(Ddp, ABackendThatAveragesBucketsGivesTheMean) {
  for (const Compression compression : {Compression::kNone, Compression::kBf16}) {
    MemoryKeyValue store;
    std::vector<std::vector<double>> seen(2);
    const auto body = [&](int rank) {
      auto gang = SharedMemoryGang::Join(store, {.rank = rank, .world_size = 2});
      ASSERT_OK(gang.status());
      const ProcessGroup group = {.backend = MakeSharedMemoryBackend(*std::move(gang)),
                                  .averages = true};
      at::Tensor a = at::ones({20, 15}).requires_grad_();
      at::Tensor b = at::ones({8, 25}).t().detach().requires_grad_();
      DdpOptions options = {.compression = compression};
      options.buckets = {.control_size = 1, .first_bucket_bytes = 64, .bucket_bytes = 900};
      const auto sync = MakeDdp(group, {a, b}, options);
      for (int step = 0; step < 2; ++step) {
        sync->BeginStep();
        const at::Tensor loss = a.mul(rank + 1.0).sum().add(b.mul(10.0 * (step + 1)).sum());
        sync->Backward(loss, at::tensor(2.0f), at::tensor({static_cast<float>(rank)}));
        sync->Await();
      }
      EXPECT_EQ(sync->gradients()[1].strides(), b.strides());
      seen[rank] = {sync->gradients()[0][19][14].item<double>(), b.grad()[0][0].item<double>(),
                    sync->control()[0].item<double>()};
    };
    std::thread second([&] { body(1); });
    body(0);
    second.join();
    EXPECT_THAT(seen, Each(ElementsAre(3.0, 40.0, 0.5)));
  }
}

TEST(Ddp, AGradientThatFitsIntoFp16OnlyAsAShareDoesNotOverflow) {
  MemoryKeyValue store;
  std::vector<double> seen(2);
  const auto body = [&](int rank) {
    auto gang = SharedMemoryGang::Join(store, {.rank = rank, .world_size = 2});
    ASSERT_OK(gang.status());
    const ProcessGroup group = {.backend = MakeSharedMemoryBackend(*std::move(gang)),
                                .averages = true};
    at::Tensor a = at::ones({3}).requires_grad_();
    DdpOptions options = {.compression = Compression::kFp16};
    options.buckets.control_size = 1;
    const auto sync = MakeDdp(group, {a}, options);
    sync->BeginStep();
    sync->Backward(a.mul(rank == 0 ? 98304.0 : 0.0).sum(), at::tensor(1.0f), at::tensor({1.0f}));
    sync->Await();
    seen[rank] = a.grad()[0].item<double>();
  };
  std::thread second([&] { body(1); });
  body(0);
  second.join();
  EXPECT_THAT(seen, Each(49152.0));  // half of what is above fp16's largest number
}

TEST(Ddp, AnUnusedParameterGetsZerosAndHoldsUpNobody) {
  const std::vector<at::Tensor> whole = GradientsOfAllRanks(1, {})[0];
  for (const bool static_graph : {false, true}) {
    for (const auto& [transport, world, addresses] : kGangs) {
      const auto gradients =
          GradientsOfAllRanks(world, {.transport = transport, .static_graph = static_graph},
                              /*with_unused=*/true, addresses);
      for (const auto& rank : gradients) {
        EXPECT_TRUE(at::allclose(rank[0], whole[0], 1e-5, 1e-7));
        EXPECT_TRUE(at::equal(rank[1], at::zeros({17})));
        EXPECT_TRUE(at::allclose(rank[2], whole[1], 1e-5, 1e-7));
      }
    }
  }
}

// The gradients of a and b lie in one memory: each is the sum's own, seen through another shape.
// It is also what the product's backward pass reads, which comes after a's and b's.
TEST(Ddp, GradientsThatShareTheirMemoryAreExchangedOnceEach) {
  // a and b, whose gradients come first, in a bucket each, and in one.
  for (const int64_t first_bucket_bytes : {64, 1300}) {
    for (const auto& [transport, world, addresses] : kGangs) {
      std::vector<std::vector<double>> seen(world);
      const auto body = [&](std::unique_ptr<Gang> gang) {
        const double mine = gang->rank() + 1.0;
        at::Tensor a = at::ones({300}).requires_grad_();
        at::Tensor b = at::ones({20, 15}).requires_grad_();
        at::Tensor c = at::ones({300}).requires_grad_();
        auto sync = gang->MakeStrategy(
            {c, a, b},
            {.control_size = 1, .first_bucket_bytes = first_bucket_bytes, .bucket_bytes = 900});
        for (int step = 0; step < 2; ++step) {
          sync->BeginStep();
          // What is made last is the first in the backward pass.
          const at::Tensor product = c.mul(mine * 2).view({15, 20}).view({300});
          const at::Tensor sum = product.add(a.add(b.view({300})));
          sync->Backward(sum.mul(mine).sum(), at::tensor(1.0, at::kFloat),
                         at::tensor({mine}, at::kFloat));
          sync->Await();
        }
        seen[gang->rank()] = {a.grad()[299].item<double>(), b.grad()[19][14].item<double>(),
                              c.grad()[299].item<double>()};
      };
      EXPECT_THAT(RunGang(world, body, {.transport = transport}, addresses), Each(""));
      double mean = 0, mean_square = 0;
      for (int number = 1; number <= world; ++number) {
        mean += static_cast<double>(number) / world;
        mean_square += static_cast<double>(number * number) / world;
      }
      EXPECT_THAT(seen, Each(ElementsAre(DoubleNear(mean, 1e-5), DoubleNear(mean, 1e-5),
                                         DoubleNear(2 * mean_square, 1e-5))))
          << world << " ranks";
    }
  }
}

// Inside the hosts and between them. Other sums may come and go while buckets are on their way.
TEST(Ddp, OverTwoLevelsOtherSumsMayPassTheBuckets) {
  std::vector<std::vector<double>> seen(3);
  const auto body = [&](std::unique_ptr<Gang> gang) {
    const double mine = gang->rank() + 1.0;
    at::Tensor a = at::ones({300}).requires_grad_(), b = at::ones({200}).requires_grad_();
    auto sync = gang->MakeStrategy(
        {a, b}, {.control_size = 1, .first_bucket_bytes = 64, .bucket_bytes = 900});
    sync->BeginStep();
    // b's gradient comes first and is sent; then a's asks the gang, as batch norm does.
    double other = 0;
    const at::Tensor between = a.mul(1.0);
    between.register_hook([&](const at::Tensor&) {
      at::Tensor sum = at::ones({7}).mul(mine);
      gang->AllReduceSum(sum);
      other = sum[6].item<double>();
    });
    const at::Tensor loss = between.mul(mine).sum().add(b.mul(mine).sum());
    sync->Backward(loss, at::tensor(1.0, at::kFloat), at::tensor({mine}, at::kFloat));
    sync->Await();
    seen[gang->rank()] = {other, a.grad()[0].item<double>(), b.grad()[0].item<double>()};
  };
  EXPECT_THAT(RunGang(3, body, {}, {"127.0.0.1", "127.0.0.1", "127.0.0.2"}), Each(""));
  EXPECT_THAT(seen, Each(ElementsAre(6.0, 2.0, 2.0)));
}

TEST(Ddp, TwoLevelsGiveTheSameBitsAtEveryRun) {
  const std::vector<std::string> addresses = {"127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"};
  const auto once = GradientsOfAllRanks(4, {}, /*with_unused=*/false, addresses);
  const auto again = GradientsOfAllRanks(4, {}, /*with_unused=*/false, addresses);
  for (size_t i = 0; i < once[0].size(); ++i) EXPECT_TRUE(at::equal(once[0][i], again[0][i]));
}

// How a sum is cut into buckets must not show: a resumed run may cut it otherwise.
TEST(Ddp, SharedMemoryGivesTheSameBitsAtEveryRunWithFourRanks) {
  const auto once = GradientsOfAllRanks(4, {.transport = Transport::kSharedMemory});
  const auto again = GradientsOfAllRanks(4, {.transport = Transport::kSharedMemory});
  for (size_t i = 0; i < once[0].size(); ++i) EXPECT_TRUE(at::equal(once[0][i], again[0][i]));
}

}  // namespace
}  // namespace muster::worker
