#include "worker/models/layers/batch_norm.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include "tests/worker/dist/gang.h"

namespace muster::worker {
namespace {

using muster::testing::RunGang;
using ::testing::Each;
using ::testing::HasSubstr;

// A layer's outputs and gradients on some samples.
struct LayerPass {
  at::Tensor y, dx, dweight, dbias, running_mean, running_var;
};

LayerPass RunLayer(const at::Tensor& samples, const at::Tensor& dy, const BatchNormBatch& batch) {
  at::Tensor x = samples.clone().requires_grad_();
  const int64_t channels = x.size(1);
  BatchNormTensors layer = {at::ones({channels}).mul_(1.5).requires_grad_(),
                            at::ones({channels}).mul_(0.25).requires_grad_(), at::zeros({channels}),
                            at::ones({channels})};
  const at::Tensor y = BatchNorm(x, layer, /*training=*/true, batch);
  y.backward(dy);
  return {y.detach(),        x.grad(),           layer.weight.grad(),
          layer.bias.grad(), layer.running_mean, layer.running_var};
}

// Unequal shares: the rest of the division goes to the first ranks.
TEST(BatchNorm, OverAGangEqualsOneProcessOnTheGlobalBatch) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{11, 6, 5, 4}, std::vector<int64_t>{13, 3}}) {
    at::Generator random = at::globalContext().defaultGenerator(at::kCPU).clone();
    random.set_current_seed(3);
    // Far from zero: the variance must not drown in the square of the mean.
    const at::Tensor x = at::randn(shape, random).mul(0.1).add(30);
    const at::Tensor dy = at::randn(shape, random);
    const LayerPass whole = RunLayer(x, dy, {});
    for (const int world : {2, 3}) {
      const auto xs = x.tensor_split(world);
      const auto dys = dy.tensor_split(world);
      std::vector<LayerPass> parts(world);
      const auto body = [&](std::unique_ptr<Collectives> gang) {
        const int rank = gang->rank();
        parts[rank] = RunLayer(xs[rank], dys[rank], {gang.get()});
      };
      ASSERT_THAT(RunGang(world, body), Each(""));
      std::vector<at::Tensor> y, dx;
      at::Tensor dweight = at::zeros({shape[1]}), dbias = at::zeros({shape[1]});
      for (const LayerPass& part : parts) {
        y.push_back(part.y);
        dx.push_back(part.dx);
        dweight.add_(part.dweight);
        dbias.add_(part.dbias);
        // Bit-equal, or the ranks' models would drift apart.
        EXPECT_TRUE(at::equal(part.running_mean, parts[0].running_mean));
        EXPECT_TRUE(at::equal(part.running_var, parts[0].running_var));
        EXPECT_TRUE(at::allclose(part.running_mean, whole.running_mean, 1e-5, 1e-6));
        EXPECT_TRUE(at::allclose(part.running_var, whole.running_var, 1e-5, 1e-6));
      }
      EXPECT_TRUE(at::allclose(at::cat(y), whole.y, 1e-4, 1e-4));
      EXPECT_TRUE(at::allclose(at::cat(dx), whole.dx, 1e-3, 1e-3));
      EXPECT_TRUE(at::allclose(dweight, whole.dweight, 1e-3, 1e-3));
      EXPECT_TRUE(at::allclose(dbias, whole.dbias, 1e-4, 1e-4));
    }
  }
}

// A rank without samples goes through the layers all the same, with some that stand in.
TEST(BatchNorm, SamplesThatStandInAreInNoStatisticsAndGiveNoGradient) {
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU).clone();
  random.set_current_seed(4);
  const at::Tensor x = at::randn({5, 3, 2, 2}, random), dy = at::randn({5, 3, 2, 2}, random);
  const at::Tensor stand_ins = at::ones({2, 3, 2, 2}).mul(1000);
  const LayerPass whole = RunLayer(x, dy, {});
  std::vector<LayerPass> parts(2);
  const auto body = [&](std::unique_ptr<Collectives> gang) {
    const bool counts = gang->rank() == 1;
    parts[gang->rank()] = RunLayer(counts ? x : stand_ins, counts ? dy : at::zeros({2, 3, 2, 2}),
                                   {gang.get(), counts});
  };
  ASSERT_THAT(RunGang(2, body), Each(""));
  for (const LayerPass& part : parts) {
    EXPECT_TRUE(at::allclose(part.running_mean, whole.running_mean, 1e-5, 1e-6));
    EXPECT_TRUE(at::allclose(part.running_var, whole.running_var, 1e-5, 1e-6));
  }
  EXPECT_TRUE(at::allclose(parts[1].y, whole.y, 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(parts[1].dx, whole.dx, 1e-3, 1e-5));
  EXPECT_TRUE(at::equal(parts[0].dx, at::zeros({2, 3, 2, 2})));
  EXPECT_TRUE(at::equal(parts[0].dweight, at::zeros({3})));

  const LayerPass alone = RunLayer(stand_ins, at::ones({2, 3, 2, 2}), {nullptr, /*counts=*/false});
  EXPECT_TRUE(at::equal(alone.running_mean, at::zeros({3})));
  EXPECT_TRUE(at::equal(alone.running_var, at::ones({3})));
}

TEST(BatchNorm, ASingleValueOfEachChannelIsRefusedWithASentence) {
  const auto error_of = [](const BatchNormBatch& batch) -> std::string {
    try {
      RunLayer(at::ones({1, 3}), at::ones({1, 3}), batch);
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "";
  };
  EXPECT_THAT(error_of({}), HasSubstr("batch norm: a batch of one sample"));
  EXPECT_EQ(error_of({nullptr, /*counts=*/false}), "") << "what stands in is no sample";
  const auto two = [&](std::unique_ptr<Collectives> gang) {
    RunLayer(at::ones({1, 3}), at::ones({1, 3}), {gang.get()});
  };
  EXPECT_THAT(RunGang(2, two), Each("")) << "over the gang there are two";
  const auto one = [&](std::unique_ptr<Collectives> gang) {
    EXPECT_THAT(error_of({gang.get(), gang->rank() == 0}), HasSubstr("has no variance"));
  };
  EXPECT_THAT(RunGang(2, one), Each(""));
}

TEST(BatchNorm, InEvaluationARankIsByItself) {
  const auto body = [&](std::unique_ptr<Collectives> gang) {
    if (gang->rank() == 1) return;  // a collective would fail
    const BatchNormTensors layer = {at::ones({3}), at::zeros({3}), at::ones({3}).mul(2),
                                    at::ones({3})};
    const at::Tensor y =
        BatchNorm(at::ones({4, 3}).mul(5), layer, /*training=*/false, {gang.get()});
    EXPECT_TRUE(at::allclose(y, at::ones({4, 3}).mul(3), 1e-4));
  };
  EXPECT_THAT(RunGang(2, body), Each(""));
}

}  // namespace
}  // namespace muster::worker
