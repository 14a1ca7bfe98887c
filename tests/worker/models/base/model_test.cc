#include "worker/models/base/model.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/autograd.h>

#include <set>

#include "tests/support/status_matchers.h"
#include "worker/models/mlp.h"
#include "worker/models/resnet.h"

namespace muster::worker {
namespace {

using muster::testing::StatusIs;
using ::testing::HasSubstr;

std::unique_ptr<Model> ResNet(int64_t width, bool imagenet, std::vector<int64_t> shape,
                              int64_t classes, uint64_t seed = 7) {
  auto model =
      MakeResNet({.width = width, .imagenet_stem = imagenet}, {std::move(shape), classes, seed});
  EXPECT_OK(model);
  return *std::move(model);
}

std::set<std::string> StateNames(const Model& model) {
  std::set<std::string> names;
  for (const ModelTensor& entry : model.state()) names.insert(entry.name);
  return names;
}

TEST(ResNet18, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(ResNet(64, /*imagenet=*/true, {3, 224, 224}, 1000)->ParameterCount(), 11'689'512);
}

TEST(ResNet18, HasTorchvisionsNames) {
  const auto model = ResNet(16, /*imagenet=*/true, {3, 64, 64}, 10);
  const std::set<std::string> names = StateNames(*model);
  EXPECT_EQ(names.size(), 122u);
  for (const char* name :
       {"conv1.weight", "bn1.running_var", "bn1.num_batches_tracked", "layer1.0.conv1.weight",
        "layer2.0.downsample.0.weight", "layer2.0.downsample.1.running_mean", "layer4.1.bn2.bias",
        "fc.weight", "fc.bias"}) {
    EXPECT_EQ(names.count(name), 1u) << name;
  }
  EXPECT_EQ(names.count("layer1.0.downsample.0.weight"), 0u);
}

TEST(ResNet18, SmallStemKeepsTheResolutionOfSmallPictures) {
  const auto model = ResNet(16, /*imagenet=*/false, {1, 16, 16}, 10);
  const at::Tensor logits = model->Forward(at::ones({4, 1, 16, 16})).values;
  EXPECT_EQ(logits.sizes(), at::IntArrayRef({4, 10}));
  EXPECT_EQ(model->parameters().front().tensor.sizes(), at::IntArrayRef({16, 1, 3, 3}));
}

TEST(ResNet18, RefusesSamplesThatAreNoPictures) {
  EXPECT_THAT(MakeResNet({.width = 16}, {{64}, 10, 0}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[64]")));
}

TEST(ResNet18, TrainsThroughBuffersThatShareOneMemory) {
  const auto model = ResNet(8, /*imagenet=*/false, {1, 8, 8}, 3);
  const at::Tensor inputs = at::linspace(-1, 1, 2 * 64).view({2, 1, 8, 8});
  const at::Tensor before = model->flat_buffers().clone();
  torch::autograd::backward({model->Forward(inputs).values.sum()}, {});
  EXPECT_FALSE(at::equal(before, model->flat_buffers()));
  for (const ModelTensor& parameter : model->parameters()) {
    EXPECT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
  }
  for (const ModelTensor& buffer : model->buffers()) {
    if (buffer.tensor.is_floating_point()) {
      EXPECT_TRUE(buffer.tensor.is_alias_of(model->flat_buffers())) << buffer.name;
    } else {
      EXPECT_EQ(buffer.tensor.item<int64_t>(), 1) << buffer.name;
    }
  }
}

TEST(ResNet18, EvaluationLeavesTheRunningStatisticsAlone) {
  const auto model = ResNet(8, /*imagenet=*/false, {1, 8, 8}, 3);
  const at::Tensor before = model->flat_buffers().clone();
  model->SetTraining(false);
  model->Forward(at::ones({2, 1, 8, 8}));
  EXPECT_TRUE(at::equal(before, model->flat_buffers()));
}

TEST(Models, SameSeedGivesTheSameWeightsAndAnotherSeedOthers) {
  const auto a = ResNet(8, false, {1, 8, 8}, 3, 1);
  const auto b = ResNet(8, false, {1, 8, 8}, 3, 1);
  const auto c = ResNet(8, false, {1, 8, 8}, 3, 2);
  for (size_t i = 0; i < a->state().size(); ++i) {
    EXPECT_TRUE(at::equal(a->state()[i].tensor, b->state()[i].tensor)) << a->state()[i].name;
  }
  EXPECT_FALSE(at::equal(a->parameters()[0].tensor, c->parameters()[0].tensor));
}

TEST(Mlp, FlattensItsInputAndIsNamedAsSequential) {
  const auto model = MakeMlp({{32, 16}}, {{1, 4, 4}, 10, 3});
  EXPECT_EQ(model->Forward(at::ones({5, 1, 4, 4})).values.sizes(), at::IntArrayRef({5, 10}));
  EXPECT_EQ(StateNames(*model), (std::set<std::string>{"0.weight", "0.bias", "2.weight", "2.bias",
                                                       "4.weight", "4.bias"}));
  EXPECT_EQ(model->ParameterCount(), 16 * 32 + 32 + 32 * 16 + 16 + 16 * 10 + 10);
}

TEST(Mlp, WithoutHiddenLayersIsLinear) {
  const auto model = MakeMlp({{}}, {{6}, 2, 3});
  EXPECT_EQ(model->parameters().size(), 2u);
  EXPECT_EQ(model->Forward(at::ones({1, 6})).values.sizes(), at::IntArrayRef({1, 2}));
}

}  // namespace
}  // namespace muster::worker
