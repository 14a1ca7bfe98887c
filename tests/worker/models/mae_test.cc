#include "worker/models/mae.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <map>
#include <string>

#include "tests/support/status_matchers.h"
#include "worker/models/mae_to_vit.h"
#include "worker/models/vit.h"

namespace muster::worker {
namespace {

using muster::testing::StatusIs;
using ::testing::HasSubstr;

MaeConfig Small() {
  return {.patch_size = 4,
          .layers = 2,
          .heads = 2,
          .width = 8,
          .mlp_width = 16,
          .decoder_layers = 1,
          .decoder_heads = 1,
          .decoder_width = 4,
          .decoder_mlp_width = 8};
}

std::unique_ptr<Model> Make(const MaeConfig& config = Small(),
                            std::vector<int64_t> shape = {1, 16, 16}) {
  auto model = MakeMae(config, {std::move(shape), /*classes=*/10, /*seed=*/3});
  EXPECT_OK(model);
  return *std::move(model);
}

std::map<std::string, at::Tensor> State(const Model& model) {
  std::map<std::string, at::Tensor> state;
  for (const ModelTensor& entry : model.state()) state[entry.name] = entry.tensor;
  return state;
}

at::Tensor Pictures(int64_t count = 2) {
  return at::linspace(-1, 1, count * 256).view({count, 1, 16, 16});
}

void SeedDefault(uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(seed);
}

TEST(Mae, TheBaseModelHasThePublishedNumberOfParameters) {
  const auto model = Make({}, {3, 224, 224});
  int64_t positions = 0;
  for (const ModelTensor& entry : model->buffers()) positions += entry.tensor.numel();
  // Hugging Face counts the fixed positions as parameters.
  EXPECT_EQ(model->ParameterCount() + positions, 111'907'840);
  EXPECT_EQ(positions, 197 * (768 + 512));
}

TEST(Mae, HasTheNamesOfThePublishedFiles) {
  const auto state = State(*Make());
  EXPECT_EQ(state.size(), 4u + 2 * 16 + 2 + 2 + 2 + 16 + 2 + 2);
  for (const char* name :
       {"vit.embeddings.cls_token", "vit.embeddings.position_embeddings",
        "vit.embeddings.patch_embeddings.projection.weight",
        "vit.encoder.layer.1.attention.attention.query.weight",
        "vit.encoder.layer.1.attention.output.dense.bias",
        "vit.encoder.layer.0.intermediate.dense.weight", "vit.encoder.layer.0.output.dense.weight",
        "vit.encoder.layer.0.layernorm_before.weight", "vit.layernorm.bias", "decoder.mask_token",
        "decoder.decoder_pos_embed", "decoder.decoder_embed.weight",
        "decoder.decoder_layers.0.attention.attention.value.bias", "decoder.decoder_norm.weight",
        "decoder.decoder_pred.weight"}) {
    EXPECT_EQ(state.count(name), 1u) << name;
  }
}

TEST(Mae, HidesTheShareOfPatchesThatWasAskedFor) {
  const auto model = Make();
  const ModelOutput output = model->Forward(Pictures());
  EXPECT_EQ(output.values.sizes(), at::IntArrayRef({2, 16, 16}));
  EXPECT_TRUE(at::equal(output.mask.sum(1), at::linspace(12, 12, 2)));
}

// Whatever batch a sample comes in, and whatever rank it comes to.
TEST(Mae, WhatIsHiddenOfASampleFollowsFromItsIdAndTheSeed) {
  const auto model = Make();
  for (const bool training : {true, false}) {
    model->SetTraining(training);
    const auto mask = [&](std::vector<int64_t> ids, uint64_t seed) {
      const at::Tensor pictures = Pictures(static_cast<int64_t>(ids.size()));
      return model->ForwardOf({.ids = std::move(ids), .seed = seed}, pictures).mask;
    };
    const at::Tensor together = mask({7, 3, 9, 11}, 5);
    EXPECT_TRUE(at::equal(mask({3}, 5)[0], together[1]));
    EXPECT_TRUE(at::equal(mask({11, 7}, 5), at::stack({together[3], together[0]})));
    EXPECT_FALSE(at::equal(together[0], together[1]));
    EXPECT_EQ(at::equal(mask({7, 3, 9, 11}, 6), together), !training)
        << "evaluations differ by the weights alone";
    EXPECT_TRUE(at::equal(model->Forward(Pictures(2)).mask, mask({0, 1}, 0)))
        << "samples that nobody named are counted";
  }
}

TEST(Mae, NoGeneratorOfTorchsIsTouched) {
  const auto model = Make();
  SeedDefault(5);
  const at::Tensor expected = at::rand({3});
  SeedDefault(5);
  model->Forward(Pictures(4));
  EXPECT_TRUE(at::equal(at::rand({3}), expected));
}

TEST(Mae, WhatIsHiddenDoesNotReachTheEncoder) {
  const auto model = Make();
  model->SetTraining(false);
  const ModelOutput before = model->Forward(Pictures());
  // Another picture wherever a patch is hidden.
  const at::Tensor hidden =
      before.mask.view({2, 1, 4, 1, 4, 1}).expand({2, 1, 4, 4, 4, 4}).reshape({2, 1, 16, 16});
  const ModelOutput after = model->Forward(Pictures() + 100 * hidden);
  EXPECT_TRUE(at::equal(before.values, after.values));
  const ModelOutput seen = model->Forward(Pictures() + 100 * (1 - hidden));
  EXPECT_FALSE(at::equal(before.values, seen.values));
}

TEST(Mae, PositionsAreSinesAndCosinesOfColumnThenRow) {
  const auto model = Make();
  const at::Tensor positions = State(*model).at("vit.embeddings.position_embeddings");
  EXPECT_EQ(positions.sizes(), at::IntArrayRef({1, 17, 8}));
  EXPECT_TRUE(at::equal(positions[0][0], at::zeros({8})));
  // Patch 6 stands in row 1, column 2; the frequencies are 1 and 1 / 100.
  const float kExpected[] = {std::sin(2.0f), std::sin(0.02f), std::cos(2.0f), std::cos(0.02f),
                             std::sin(1.0f), std::sin(0.01f), std::cos(1.0f), std::cos(0.01f)};
  for (int i = 0; i < 8; ++i) {
    EXPECT_NEAR(positions[0][7][i].item<float>(), kExpected[i], 1e-6) << i;
  }
  EXPECT_FALSE(positions.requires_grad());
}

TEST(Mae, GivesAGradientToEachParameter) {
  const auto model = Make();
  torch::autograd::backward({model->Forward(Pictures()).values.square().sum()}, {});
  for (const ModelTensor& parameter : model->parameters()) {
    EXPECT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
  }
}

TEST(Mae, RefusesWhatLeavesNothingToSeeOrToHide) {
  MaeConfig config = Small();
  config.mask_ratio = 0.99;
  EXPECT_THAT(MakeMae(config, {{1, 16, 16}, 10, 0}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 of 16 patches")));
  config = Small();
  config.decoder_width = 6;
  EXPECT_THAT(MakeMae(config, {{1, 16, 16}, 10, 0}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("decoder_width 6")));
  EXPECT_THAT(MakeMae(Small(), {{1, 10, 16}, 10, 0}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("10 x 16")));
}

TEST(MaeToVit, GivesEveryTensorOfTheTransformerButItsHead) {
  const auto mae = Make();
  ASSERT_TRUE(IsMae(mae->state()));
  const auto converted = MaeEncoderToVit(mae->state());
  ASSERT_OK(converted);
  const auto vit = MakeVit({.patch_size = 4, .layers = 2, .heads = 2, .width = 8, .mlp_width = 16},
                           {{1, 16, 16}, 10, 4});
  ASSERT_OK(vit);
  EXPECT_FALSE(IsMae((*vit)->state()));
  std::map<std::string, std::vector<int64_t>> wanted, given;
  for (const ModelTensor& entry : (*vit)->state()) wanted[entry.name] = entry.tensor.sizes().vec();
  for (const ModelTensor& entry : *converted) given[entry.name] = entry.tensor.sizes().vec();
  wanted.erase("heads.head.weight");
  wanted.erase("heads.head.bias");
  EXPECT_EQ(given, wanted);
}

TEST(MaeToVit, PutsQueryKeyAndValueBelowEachOther) {
  const auto mae = Make();
  const auto state = State(*mae);
  const auto converted = MaeEncoderToVit(mae->state());
  ASSERT_OK(converted);
  std::map<std::string, at::Tensor> vit;
  for (const ModelTensor& entry : *converted) vit[entry.name] = entry.tensor;
  const at::Tensor joined = vit.at("encoder.layers.encoder_layer_1.self_attention.in_proj_weight");
  const std::string theirs = "vit.encoder.layer.1.attention.attention.";
  EXPECT_TRUE(at::equal(joined.narrow(0, 0, 8), state.at(theirs + "query.weight")));
  EXPECT_TRUE(at::equal(joined.narrow(0, 8, 8), state.at(theirs + "key.weight")));
  EXPECT_TRUE(at::equal(joined.narrow(0, 16, 8), state.at(theirs + "value.weight")));
  EXPECT_TRUE(at::equal(vit.at("encoder.layers.encoder_layer_1.mlp.3.weight"),
                        state.at("vit.encoder.layer.1.output.dense.weight")));
}

TEST(MaeToVit, NamesWhatIsMissingAndWhatItDoesNotKnow) {
  const auto mae = Make();
  std::vector<ModelTensor> tensors;
  for (const ModelTensor& entry : mae->state()) {
    if (entry.name != "vit.encoder.layer.1.attention.attention.key.bias") tensors.push_back(entry);
  }
  EXPECT_THAT(MaeEncoderToVit(tensors).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("lack vit.encoder.layer.1.attention.attention.key.bias")));
  tensors = mae->state();
  tensors.push_back({"vit.pooler.weight", at::zeros({1})});
  EXPECT_THAT(MaeEncoderToVit(tensors).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("vit.pooler.weight")));
}

}  // namespace
}  // namespace muster::worker
