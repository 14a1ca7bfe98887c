#include "worker/models/vit.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>
#include <string>

#include "tests/support/status_matchers.h"
#include "worker/models/layers/patches.h"
#include "worker/models/layers/transformer_block.h"

namespace muster::worker {
namespace {

using muster::testing::StatusIs;
using ::testing::HasSubstr;

std::unique_ptr<Model> MakeVit(const VitConfig& config, std::vector<int64_t> shape,
                               int64_t classes) {
  auto model = MakeVit(config, {std::move(shape), classes, /*seed=*/3});
  EXPECT_OK(model);
  return *std::move(model);
}

VitConfig Small() {
  return {.patch_size = 4, .layers = 2, .heads = 2, .width = 8, .mlp_width = 16};
}

// The head starts at 0; a test that looks at outputs needs one that passes something on.
void FillHead(Model& model) {
  for (const ModelTensor& entry : model.parameters()) {
    if (entry.name == "heads.head.weight") entry.tensor.detach().fill_(0.5).select(1, 0).zero_();
  }
}

TEST(Vit, TheSizesHaveThePublishedNumbersOfParameters) {
  const std::vector<int64_t> picture = {3, 224, 224};
  EXPECT_EQ(MakeVit({}, picture, 1000)->ParameterCount(), 86'567'656);
  EXPECT_EQ(MakeVit({.heads = 6, .width = 384, .mlp_width = 1536}, picture, 1000)->ParameterCount(),
            22'050'664);
  EXPECT_EQ(MakeVit({.heads = 3, .width = 192, .mlp_width = 768}, picture, 1000)->ParameterCount(),
            5'717'416);
}

TEST(Vit, HasTorchvisionsNamesAndShapes) {
  const auto model = MakeVit(Small(), {3, 8, 12}, 5);
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const ModelTensor& entry : model->state()) shapes[entry.name] = entry.tensor.sizes().vec();
  const std::string layer = "encoder.layers.encoder_layer_1.";
  EXPECT_EQ(shapes.size(), 4u + 2 * 12 + 4);
  using Shape = std::vector<int64_t>;
  EXPECT_EQ(shapes["class_token"], (Shape{1, 1, 8}));
  EXPECT_EQ(shapes["conv_proj.weight"], (Shape{8, 3, 4, 4}));
  EXPECT_EQ(shapes["encoder.pos_embedding"], (Shape{1, 7, 8}));
  EXPECT_EQ(shapes[layer + "self_attention.in_proj_weight"], (Shape{24, 8}));
  EXPECT_EQ(shapes[layer + "self_attention.in_proj_bias"], (Shape{24}));
  EXPECT_EQ(shapes[layer + "self_attention.out_proj.weight"], (Shape{8, 8}));
  EXPECT_EQ(shapes[layer + "mlp.0.weight"], (Shape{16, 8}));
  EXPECT_EQ(shapes[layer + "mlp.3.weight"], (Shape{8, 16}));
  EXPECT_EQ(shapes[layer + "ln_2.bias"], (Shape{8}));
  EXPECT_EQ(shapes["encoder.ln.weight"], (Shape{8}));
  EXPECT_EQ(shapes["heads.head.weight"], (Shape{5, 8}));
}

TEST(Vit, GivesALogitForEachClassAndAGradientToEachParameter) {
  const auto model = MakeVit(Small(), {1, 8, 8}, 3);
  FillHead(*model);
  const at::Tensor logits = model->Forward(at::linspace(-1, 1, 2 * 64).view({2, 1, 8, 8})).values;
  EXPECT_EQ(logits.sizes(), at::IntArrayRef({2, 3}));
  torch::autograd::backward({logits.sum()}, {});
  for (const ModelTensor& parameter : model->parameters()) {
    EXPECT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
  }
}

TEST(Vit, DropoutActsInTrainingOnly) {
  VitConfig config = Small();
  config.dropout = 0.5;
  config.attention_dropout = 0.5;
  const auto model = MakeVit(config, {1, 8, 8}, 3);
  FillHead(*model);
  const at::Tensor inputs = at::linspace(-1, 1, 2 * 64).view({2, 1, 8, 8});
  const auto twice_equal = [&] {
    return at::equal(model->Forward(inputs).values, model->Forward(inputs).values);
  };
  EXPECT_FALSE(twice_equal());
  model->SetTraining(false);
  EXPECT_TRUE(twice_equal());
}

TEST(Vit, GivesTheSameGradientsWhenBlocksAreComputedAgain) {
  VitConfig config = Small();
  config.dropout = 0.3;
  config.attention_dropout = 0.3;
  std::vector<std::vector<at::Tensor>> gradients;
  for (const bool again : {false, true}) {
    auto made = MakeVit(
        config, {.input_shape = {1, 8, 8}, .classes = 3, .seed = 3, .checkpoint_blocks = again});
    ASSERT_OK(made);
    FillHead(**made);
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    generator.set_current_seed(7);
    const at::Tensor inputs = at::linspace(-1, 1, 2 * 64).view({2, 1, 8, 8});
    torch::autograd::backward({(*made)->Forward(inputs).values.square().sum()}, {});
    gradients.emplace_back();
    for (const ModelTensor& parameter : (*made)->parameters()) {
      gradients.back().push_back(parameter.tensor.grad().clone());
    }
  }
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    EXPECT_TRUE(at::equal(gradients[0][i], gradients[1][i])) << i;
  }
}

TEST(Vit, RefusesPicturesThatDoNotPartIntoPatches) {
  EXPECT_THAT(MakeVit(Small(), {{1, 8, 10}, 3, 0}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("8 x 10")));
  EXPECT_THAT(MakeVit(Small(), {{64}, 3, 0}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[64]")));
  VitConfig config = Small();
  config.heads = 3;
  EXPECT_THAT(MakeVit(config, {{1, 8, 8}, 3, 0}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 heads")));
}

TEST(TransformerBlock, IsTheSameWithOneJoinedProjectionAndWithThree) {
  const AddParameterFunction add = [](std::string, at::Tensor values) { return values; };
  const TransformerBlockConfig config = {.width = 8, .mlp_width = 16, .heads = 2};
  TransformerBlockNames names = {.query_key_value = {"joined"}, .joined_with_underscore = true};
  Initializer init(1);
  const TransformerBlock joined = MakeTransformerBlock(config, names, "", init, add);
  TransformerBlock parted = joined;
  parted.query_key_value.clear();
  for (int64_t part = 0; part < 3; ++part) {
    const LinearLayer& whole = joined.query_key_value[0];
    parted.query_key_value.push_back(
        {whole.weight.narrow(0, 8 * part, 8), whole.bias.narrow(0, 8 * part, 8)});
  }
  const at::Tensor x = at::linspace(-1, 1, 2 * 5 * 8).view({2, 5, 8});
  EXPECT_TRUE(at::allclose(joined(x, false), parted(x, false), 1e-5, 1e-6));
  EXPECT_EQ(joined.Parameters().size(), 12u);
  EXPECT_EQ(parted.Parameters().size(), 16u);
}

TEST(Patches, ComeBackAsThePictureThatTheyWere) {
  const at::Tensor pictures = at::arange(2 * 3 * 4 * 6).to(at::kFloat).view({2, 3, 4, 6});
  const at::Tensor patches = ToPatches(pictures, 2);
  EXPECT_EQ(patches.sizes(), at::IntArrayRef({2, 6, 12}));
  // The second patch of the first row, its second row, first column, last channel.
  EXPECT_EQ(patches[0][1][2 * 3 + 2].item<float>(), pictures[0][2][1][2].item<float>());
  EXPECT_TRUE(at::equal(FromPatches(patches, pictures, 2), pictures));
}

}  // namespace
}  // namespace muster::worker
