#include "worker/optim/parameter_groups.h"

#include "tests/support/status_matchers.h"
#include "worker/optim/layers.h"

namespace muster::worker {
namespace {

using muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<ParameterShape> kMlp = {
    {"0.weight", {8, 4}}, {"0.bias", {8}}, {"2.weight", {3, 8}}, {"2.bias", {3}}};

TEST(ParameterGroups, TheFirstPatternThatMatchesCounts) {
  GroupingConfig config;
  config.weight_decay = 0.1;
  config.groups = {{"*.bias", 2, 0, false}, {"0.*", 0.5, 0.3, false}};
  const auto settings = AssignGroups(config, kMlp);
  ASSERT_OK(settings);
  EXPECT_EQ((*settings)[0].lr_scale, 0.5);
  EXPECT_EQ((*settings)[0].weight_decay, 0.3);
  EXPECT_EQ((*settings)[1].lr_scale, 2);
  EXPECT_EQ((*settings)[1].weight_decay, 0);
  EXPECT_EQ((*settings)[2].lr_scale, 1);
  EXPECT_EQ((*settings)[2].weight_decay, 0.1);
  EXPECT_EQ((*settings)[3].lr_scale, 2);
}

TEST(ParameterGroups, APatternThatMatchesNothingNamesTheNearestParameter) {
  GroupingConfig config;
  config.groups = {{"1.weigth", 1, 0, false}};
  EXPECT_THAT(AssignGroups(config, kMlp),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("groups[0].pattern `1.weigth` matches no parameter; the nearest "
                                 "one is `0.weight`")));
  config.groups = {{"*.biass", 1, 0, false}};
  EXPECT_THAT(AssignGroups(config, kMlp),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nearest one is `0.bias`")));
}

TEST(ParameterGroups, APatternBehindABroaderOneIsAnError) {
  GroupingConfig config;
  config.groups = {{"*", 1, 0, false}, {"0.bias", 2, 0, false}};
  EXPECT_THAT(AssignGroups(config, kMlp), StatusIs(absl::StatusCode::kInvalidArgument,
                                                   HasSubstr("groups[1].pattern `0.bias`")));
}

TEST(ParameterGroups, SomethingMustBeTrained) {
  GroupingConfig config;
  config.groups = {{"*", 1, 0, true}};
  EXPECT_THAT(AssignGroups(config, kMlp),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nothing would be trained")));
}

TEST(ParameterGroups, NormsAndBiasesMayBeLeftOutOfWeightDecay) {
  GroupingConfig config;
  config.weight_decay = 0.1;
  config.decay_norms_and_biases = false;
  const auto settings = AssignGroups(config, kMlp);
  ASSERT_OK(settings);
  for (size_t i = 0; i < kMlp.size(); ++i) {
    const bool bias = i % 2 == 1;
    EXPECT_EQ((*settings)[i].weight_decay, bias ? 0 : 0.1) << kMlp[i].name;
    EXPECT_EQ((*settings)[i].adapt, !bias) << kMlp[i].name;
  }
}

TEST(ParameterGroups, TheRateFallsLayerByLayerFromTheHeadDown) {
  GroupingConfig config;
  config.layer_decay = 0.5;
  config.groups = {{"fc.*", 4, 0, false}};
  const std::vector<ParameterShape> resnet = {{"conv1.weight", {4, 3, 3, 3}},
                                              {"layer1.0.conv1.weight", {4, 4, 3, 3}},
                                              {"layer2.0.conv1.weight", {8, 4, 3, 3}},
                                              {"fc.weight", {10, 8}}};
  const auto settings = AssignGroups(config, resnet);
  ASSERT_OK(settings);
  EXPECT_EQ((*settings)[0].lr_scale, 0.125);
  EXPECT_EQ((*settings)[1].lr_scale, 0.25);
  EXPECT_EQ((*settings)[2].lr_scale, 0.5);
  EXPECT_EQ((*settings)[3].lr_scale, 4);
  EXPECT_THAT(AssignGroups({.layer_decay = 0.5}, kMlp),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tell no layers")));
}

TEST(LayerNumbers, KnowsTheBlocksOfEachFamily) {
  EXPECT_THAT(LayerNumbers({"conv1.weight", "bn1.bias", "layer1.0.conv1.weight",
                            "layer1.1.bn2.weight", "layer2.0.downsample.0.weight", "fc.bias"}),
              ElementsAre(0, 0, 1, 2, 3, 4));
  EXPECT_THAT(LayerNumbers({"class_token", "conv_proj.weight", "encoder.pos_embedding",
                            "encoder.layers.encoder_layer_0.ln_1.weight",
                            "encoder.layers.encoder_layer_1.mlp.0.bias",
                            "encoder.layers.encoder_layer_10.mlp.0.bias", "encoder.ln.weight",
                            "heads.head.weight"}),
              ElementsAre(0, 0, 0, 1, 2, 3, 4, 4));
  EXPECT_THAT(
      LayerNumbers({"vit.embeddings.cls_token", "vit.embeddings.patch_embeddings.projection.weight",
                    "vit.encoder.layer.0.attention.attention.query.weight",
                    "vit.encoder.layer.1.output.dense.bias", "vit.layernorm.weight",
                    "decoder.decoder_layers.0.output.dense.bias"}),
      ElementsAre(0, 0, 1, 2, 3, 3));
  EXPECT_THAT(LayerNumbers({"transformer.wte.weight", "transformer.wpe.weight",
                            "transformer.h.0.attn.c_attn.weight", "transformer.h.11.ln_1.bias",
                            "transformer.ln_f.weight"}),
              ElementsAre(0, 0, 1, 2, 3));
  EXPECT_THAT(LayerNumbers({"0.weight", "0.bias"}), IsEmpty());
}

}  // namespace
}  // namespace muster::worker
