#include "worker/models/layers/recompute.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>

#include <mutex>

#include "tests/support/status_matchers.h"
#include "tests/worker/dist/gang.h"
#include "worker/models/gpt2.h"
#include "worker/models/resnet.h"
#include "worker/train/step/amp.h"

namespace muster::worker {
namespace {

using muster::testing::RunGang;
using ::testing::Each;

constexpr int64_t kWidth = 12;

void Seed(uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

// What a transformer's block is made of: layer norm, linear, GELU, dropout, a residual.
at::Tensor Feed(const std::vector<at::Tensor>& weights, const at::Tensor& x) {
  const at::Tensor normed = at::layer_norm(x, {kWidth}, weights[0], weights[1]);
  return at::dropout(at::gelu(at::linear(normed, weights[2])), 0.3, /*train=*/true).add(x);
}

struct PassOutcome {
  at::Tensor loss, input_gradient, next_random;
  std::vector<at::Tensor> gradients;
};

// Three blocks and a head, once with their activations kept and once without.
PassOutcome RunStack(bool recompute, bool input_needs_gradient, Precision precision) {
  Seed(5);
  std::vector<std::vector<at::Tensor>> blocks(3);
  std::vector<at::Tensor> all;
  for (auto& weights : blocks) {
    weights = {at::rand({kWidth}), at::rand({kWidth}), at::rand({kWidth, kWidth})};
    for (const at::Tensor& weight : weights) all.push_back(weight.requires_grad_());
  }
  const at::Tensor head = at::rand({4, kWidth}).requires_grad_();
  all.push_back(head);
  at::Tensor input = at::rand({6, kWidth});
  input.requires_grad_(input_needs_gradient);
  const at::Tensor targets = at::randint(4, {6}, at::kLong);
  PassOutcome outcome;
  {
    const AutocastScope autocast(precision, at::kCPU);
    at::Tensor x = input;
    for (const auto& weights : blocks) {
      const auto block = [&weights](const std::vector<at::Tensor>& inputs, Pass) {
        return Feed(weights, inputs.front());
      };
      x = recompute ? Recompute(block, weights, {x}) : block({x}, Pass::kFirst);
    }
    outcome.loss = at::cross_entropy_loss(at::linear(x, head), targets);
  }
  outcome.loss.backward();
  outcome.input_gradient = input.grad();
  for (const at::Tensor& weight : all) outcome.gradients.push_back(weight.grad());
  outcome.next_random = at::rand({3});
  return outcome;
}

TEST(Recompute, GivesTheSameBitsAndLeavesTheGeneratorWhereItWas) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    for (const bool input_needs_gradient : {false, true}) {
      const PassOutcome kept = RunStack(false, input_needs_gradient, precision);
      const PassOutcome again = RunStack(true, input_needs_gradient, precision);
      EXPECT_TRUE(kept.loss.equal(again.loss));
      EXPECT_TRUE(kept.next_random.equal(again.next_random));
      EXPECT_EQ(again.input_gradient.defined(), input_needs_gradient);
      if (input_needs_gradient) {
        EXPECT_TRUE(kept.input_gradient.equal(again.input_gradient));
      }
      for (size_t i = 0; i < kept.gradients.size(); ++i) {
        ASSERT_TRUE(again.gradients[i].defined()) << i;
        EXPECT_TRUE(kept.gradients[i].equal(again.gradients[i])) << i;
      }
    }
  }
}

TEST(Recompute, RunsTheBlockTwiceWhenDifferentiatedAndElseOnce) {
  const at::Tensor weight = at::rand({3}).requires_grad_();
  std::vector<Pass> passes;
  const auto block = [&](const std::vector<at::Tensor>& inputs, Pass pass) {
    passes.push_back(pass);
    return inputs[0].mul(weight).add(inputs[1]);
  };
  const std::vector<at::Tensor> inputs = {at::rand({3}), at::rand({3}).requires_grad_()};
  const at::Tensor y = Recompute(block, {weight}, inputs);
  EXPECT_EQ(passes, std::vector<Pass>({Pass::kFirst}));
  y.sum().backward();
  EXPECT_EQ(passes, std::vector<Pass>({Pass::kFirst, Pass::kAgain}));
  EXPECT_TRUE(weight.grad().equal(inputs[0]));
  EXPECT_TRUE(inputs[1].grad().equal(at::full({3}, 1.0)));
  EXPECT_FALSE(inputs[0].grad().defined());

  const at::NoGradGuard no_grad;
  Recompute(block, {weight}, inputs);
  EXPECT_EQ(passes.size(), 3u);
}

TEST(Recompute, LeavesFrozenParametersWithoutGradient) {
  const at::Tensor frozen = at::rand({3});
  const at::Tensor weight = at::rand({3}).requires_grad_();
  const auto block = [&](const std::vector<at::Tensor>& inputs, Pass) {
    return inputs[0].mul(weight).mul(frozen);
  };
  const at::Tensor x = at::rand({3});
  Recompute(block, {frozen, weight}, {x}).sum().backward();
  EXPECT_FALSE(frozen.grad().defined());
  EXPECT_TRUE(weight.grad().equal(x.mul(frozen)));
}

std::unique_ptr<Model> SmallResNet(bool checkpoint_blocks) {
  auto model = MakeResNet(
      {.width = 4},
      {.input_shape = {1, 8, 8}, .classes = 3, .seed = 2, .checkpoint_blocks = checkpoint_blocks});
  EXPECT_OK(model);
  return *std::move(model);
}

// Two steps: what the first leaves in the buffers, the second starts from. In the gang, gradients
// go through the Reducer in several buckets.
TEST(Recompute, AResNetHasTheSameGradientsAndBuffersOnOneRankAndOnTwo) {
  for (const int world : {1, 2}) {
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      const auto errors = RunGang(world, [&](std::unique_ptr<Gang> gang) {
        std::vector<std::unique_ptr<Model>> models;
        for (const bool checkpoint_blocks : {false, true}) {
          models.push_back(SmallResNet(checkpoint_blocks));
          Model& model = *models.back();
          std::vector<at::Tensor> parameters;
          for (const ModelTensor& entry : model.parameters()) parameters.push_back(entry.tensor);
          const auto sync = gang->MakeStrategy(
              parameters, {.control_size = 1, .first_bucket_bytes = 512, .bucket_bytes = 16 << 10});
          for (int step = 0; step < 2; ++step) {
            const at::Generator generator =
                at::detail::createCPUGenerator(static_cast<uint64_t>(10 * step + gang->rank()));
            const at::Tensor inputs = at::rand({5, 1, 8, 8}, generator);
            const at::Tensor targets = at::randint(3, {5}, generator, at::kLong);
            sync->BeginStep();
            at::Tensor loss;
            {
              const AutocastScope autocast(precision, at::kCPU);
              loss = at::cross_entropy_loss(model.Forward(inputs).values, targets);
            }
            sync->Backward(loss, at::full({}, 1.0), at::zeros({1}));
            sync->Await();
          }
        }
        for (size_t i = 0; i < models[0]->parameters().size(); ++i) {
          const ModelTensor& kept = models[0]->parameters()[i];
          const at::Tensor again = models[1]->parameters()[i].tensor.grad();
          ASSERT_TRUE(again.defined()) << kept.name;
          EXPECT_TRUE(kept.tensor.grad().equal(again)) << kept.name;
        }
        for (size_t i = 0; i < models[0]->buffers().size(); ++i) {
          const ModelTensor& kept = models[0]->buffers()[i];
          EXPECT_TRUE(kept.tensor.equal(models[1]->buffers()[i].tensor)) << kept.name;
        }
        EXPECT_EQ(models[1]->buffers().back().name, "layer4.1.bn2.num_batches_tracked");
        EXPECT_EQ(models[1]->buffers().back().tensor.item<int64_t>(), 2);
      });
      EXPECT_THAT(errors, Each(""));
    }
  }
}

// Two steps of a language model over all precisions: the token table, which is used at both ends,
// the blocks, and where dropout's random numbers stand afterwards.
TEST(Recompute, AGpt2HasTheSameGradientsWithDropout) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    std::vector<std::unique_ptr<Model>> models;
    std::vector<at::Tensor> losses, next_random;
    for (const bool checkpoint_blocks : {false, true}) {
      auto made = MakeGpt2(
          {.layers = 3, .heads = 2, .width = 16, .context = 8, .vocabulary = 50, .dropout = 0.2},
          {.input_shape = {8}, .classes = 50, .seed = 4, .checkpoint_blocks = checkpoint_blocks});
      ASSERT_OK(made);
      models.push_back(*std::move(made));
      Seed(6);
      for (int step = 0; step < 2; ++step) {
        const at::Tensor tokens = at::randint(50, {3, 8}, at::kLong);
        at::Tensor loss;
        {
          const AutocastScope autocast(precision, at::kCPU);
          loss = at::cross_entropy_loss(models.back()->Forward(tokens).values.view({24, 50}),
                                        tokens.view({24}));
        }
        loss.backward();
        losses.push_back(loss.detach());
      }
      next_random.push_back(at::rand({3}));
    }
    EXPECT_TRUE(losses[0].equal(losses[2]) && losses[1].equal(losses[3]));
    EXPECT_TRUE(next_random[0].equal(next_random[1]));
    for (size_t i = 0; i < models[0]->parameters().size(); ++i) {
      const ModelTensor& kept = models[0]->parameters()[i];
      const at::Tensor again = models[1]->parameters()[i].tensor.grad();
      ASSERT_TRUE(again.defined()) << kept.name;
      EXPECT_TRUE(kept.tensor.grad().equal(again)) << kept.name;
    }
  }
}

// Writes down what goes over the gang, in order.
class RecordingCollectives final : public Collectives {
 public:
  explicit RecordingCollectives(Collectives& gang) : gang_(gang) {}
  int rank() const override { return gang_.rank(); }
  int world_size() const override { return gang_.world_size(); }
  std::string transport() const override { return gang_.transport(); }
  void AllReduceSum(at::Tensor& tensor) override {
    sums.push_back(tensor.numel());
    gang_.AllReduceSum(tensor);
  }
  void Broadcast(at::Tensor& tensor, int root) override { gang_.Broadcast(tensor, root); }
  void BroadcastText(std::string& text, int root) override { gang_.BroadcastText(text, root); }
  void Barrier() override { gang_.Barrier(); }

  std::vector<int64_t> sums;  // how many numbers each was of

 private:
  Collectives& gang_;
};

// Two steps of a ResNet whose batch norm is over the gang, with unequal shares.
struct GangSteps {
  std::unique_ptr<Model> model;
  std::vector<int64_t> sums;
  std::vector<float> losses;
};
GangSteps TwoStepsOverTheGang(Gang& gang, bool checkpoint_blocks) {
  GangSteps outcome;
  outcome.model = SmallResNet(checkpoint_blocks);
  Model& model = *outcome.model;
  RecordingCollectives recorded(gang);
  model.SynchronizeBatchNorm(recorded);
  std::vector<at::Tensor> parameters;
  for (const ModelTensor& entry : model.parameters()) parameters.push_back(entry.tensor);
  const auto sync = gang.MakeStrategy(
      parameters, {.control_size = 1, .first_bucket_bytes = 512, .bucket_bytes = 16 << 10});
  for (int step = 0; step < 2; ++step) {
    const at::Generator generator =
        at::detail::createCPUGenerator(static_cast<uint64_t>(10 * step + gang.rank()));
    const int64_t share = 4 + gang.rank();
    const at::Tensor inputs = at::rand({share, 1, 8, 8}, generator);
    const at::Tensor targets = at::randint(3, {share}, generator, at::kLong);
    sync->BeginStep();
    const at::Tensor loss = at::cross_entropy_loss(model.Forward(inputs).values, targets);
    sync->Backward(loss, at::full({}, 1.0), at::zeros({1}));
    sync->Await();
    outcome.losses.push_back(loss.item<float>());
  }
  outcome.sums = std::move(recorded.sums);
  return outcome;
}

// The second pass takes the gang's statistics again, in the backward pass, between the exchanges of
// gradients: to the same bits, in the same order on all ranks, and counted once.
TEST(Recompute, BatchNormOverTheGangHasTheSameBitsAndOneOrderOnAllRanks) {
  using Addresses = std::vector<std::string>;
  for (const Addresses& addresses :
       {Addresses(2, "127.0.0.1"), Addresses{"127.0.0.1", "127.0.0.1", "127.0.0.2"}}) {
    const int world = static_cast<int>(addresses.size());
    std::vector<std::vector<int64_t>> sums(world);
    size_t sums_kept = 0;
    const auto body = [&](std::unique_ptr<Gang> gang) {
      const GangSteps kept = TwoStepsOverTheGang(*gang, false);
      const GangSteps again = TwoStepsOverTheGang(*gang, true);
      EXPECT_EQ(kept.losses, again.losses);
      for (size_t i = 0; i < kept.model->parameters().size(); ++i) {
        const ModelTensor& parameter = kept.model->parameters()[i];
        EXPECT_TRUE(parameter.tensor.grad().equal(again.model->parameters()[i].tensor.grad()))
            << parameter.name;
      }
      for (size_t i = 0; i < kept.model->buffers().size(); ++i) {
        const ModelTensor& buffer = kept.model->buffers()[i];
        EXPECT_TRUE(buffer.tensor.equal(again.model->buffers()[i].tensor)) << buffer.name;
      }
      EXPECT_EQ(again.model->buffers().back().tensor.item<int64_t>(), 2);
      sums[gang->rank()] = again.sums;
      if (gang->rank() == 0) sums_kept = kept.sums.size();
    };
    EXPECT_THAT(RunGang(world, body, {}, addresses), Each(""));
    EXPECT_THAT(sums, Each(sums[0]));
    // 20 layers, each forward and backward in 2 steps; all but the stem's go forward again.
    EXPECT_EQ(sums_kept, 2u * 20 * 2);
    EXPECT_EQ(sums[0].size(), 2u * (20 * 2 + 19));
  }
}

}  // namespace
}  // namespace muster::worker
