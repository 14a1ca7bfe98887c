// The deeper residual networks; what all of them share is tested with ResNet-18 in model_test.cc.
#include "worker/models/resnet.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>
#include <string>

#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

std::unique_ptr<Model> Make(const ResNetConfig& config, std::vector<int64_t> shape,
                            int64_t classes) {
  auto model = MakeResNet(config, {std::move(shape), classes, /*seed=*/3});
  EXPECT_OK(model);
  return *std::move(model);
}

std::map<std::string, at::Tensor> State(const Model& model) {
  std::map<std::string, at::Tensor> state;
  for (const ModelTensor& entry : model.state()) state[entry.name] = entry.tensor;
  return state;
}

// Beside the largest number.
double LargestDifference(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>() / a.abs().max().item<double>();
}

TEST(ResNet, EveryDepthHasThePublishedNumberOfParameters) {
  const std::map<ResNetDepth, int64_t> kPublished = {{ResNetDepth::k34, 21'797'672},
                                                     {ResNetDepth::k50, 25'557'032},
                                                     {ResNetDepth::k101, 44'549'160}};
  for (const auto& [depth, count] : kPublished) {
    EXPECT_EQ(Make({.depth = depth, .imagenet_stem = true}, {3, 224, 224}, 1000)->ParameterCount(),
              count);
  }
}

TEST(ResNet, BottlenecksPutTheStrideOnTheMiddleConvolutionAndWidenFourfold) {
  const auto model = Make({.depth = ResNetDepth::k50, .width = 4}, {3, 16, 16}, 5);
  const auto state = State(*model);
  EXPECT_EQ(state.size(), 320u);  // as torchvision's resnet50().state_dict()
  EXPECT_EQ(state.at("layer1.0.conv2.weight").sizes(), at::IntArrayRef({4, 4, 3, 3}));
  EXPECT_EQ(state.at("layer1.0.conv3.weight").sizes(), at::IntArrayRef({16, 4, 1, 1}));
  EXPECT_EQ(state.at("layer1.0.downsample.0.weight").sizes(), at::IntArrayRef({16, 4, 1, 1}));
  EXPECT_EQ(state.at("layer2.0.conv1.weight").sizes(), at::IntArrayRef({8, 16, 1, 1}));
  EXPECT_EQ(state.at("fc.weight").sizes(), at::IntArrayRef({5, 128}));
  EXPECT_EQ(model->Forward(at::ones({2, 3, 16, 16})).values.sizes(), at::IntArrayRef({2, 5}));
}

TEST(ResNet, BlocksStartAsTheIdentityWhenAsked) {
  for (const ResNetDepth depth : {ResNetDepth::k18, ResNetDepth::k50}) {
    const auto state =
        State(*Make({.depth = depth, .width = 4, .zero_init_residual = true}, {1, 8, 8}, 3));
    const std::string last = depth == ResNetDepth::k18 ? "bn2" : "bn3";
    EXPECT_EQ(state.at("layer3.1." + last + ".weight").abs().sum().item<double>(), 0);
    EXPECT_TRUE(at::equal(state.at("layer3.1.bn1.weight"), at::ones({16})));
    EXPECT_TRUE(at::equal(state.at("bn1.weight"), at::ones({4})));
  }
}

TEST(ResNet, LearnsTheSameWithTheChannelsOfAPixelSideBySide) {
  // Enough different pixels for batch norm not to blow up rounding.
  const at::Tensor pictures = at::linspace(0, 1e6, 8 * 3 * 32 * 32).sin().view({8, 3, 32, 32});
  std::unique_ptr<Model> models[2];
  at::Tensor outputs[2];
  for (const bool channels_last : {false, true}) {
    ModelContext context = {{3, 32, 32}, 5, /*seed=*/3};
    if (channels_last) context.picture_format = at::MemoryFormat::ChannelsLast;
    auto made = MakeResNet({.depth = ResNetDepth::k18, .width = 8}, context);
    ASSERT_OK(made);
    models[channels_last] = *std::move(made);
    outputs[channels_last] = models[channels_last]->Forward(pictures).values;
    torch::autograd::backward({outputs[channels_last].square().sum()}, {});
  }
  EXPECT_LT(LargestDifference(outputs[0], outputs[1]), 1e-4);
  for (size_t i = 0; i < models[0]->parameters().size(); ++i) {
    const auto& [name, plain] = models[0]->parameters()[i];
    const at::Tensor& other = models[1]->parameters()[i].tensor;
    EXPECT_TRUE(at::equal(plain, other)) << name;
    EXPECT_LT(LargestDifference(plain.grad(), other.grad()), 1e-3) << name;
    if (other.dim() != 4) continue;
    // Fused optimizers walk over both as they lie in memory.
    EXPECT_TRUE(other.is_contiguous(at::MemoryFormat::ChannelsLast)) << name;
    EXPECT_TRUE(other.grad().is_contiguous(at::MemoryFormat::ChannelsLast)) << name;
  }
}

}  // namespace
}  // namespace muster::worker
