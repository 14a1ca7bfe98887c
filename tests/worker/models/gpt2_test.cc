#include "worker/models/gpt2.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/remainder.h>
#include <torch/csrc/autograd/autograd.h>

#include <set>

#include "tests/support/status_matchers.h"
#include "worker/models/layers/token_head.h"

namespace muster::worker {
namespace {

using muster::testing::StatusIs;
using ::testing::HasSubstr;

std::unique_ptr<Model> SmallGpt2(double dropout = 0) {
  auto model = MakeGpt2({2, 2, 16, 8, 50, dropout}, {{8}, 50, 3});
  EXPECT_OK(model);
  return *std::move(model);
}

at::Tensor SomeTokens() { return at::remainder(at::arange(24, at::kLong).mul(7), 50).view({3, 8}); }

TEST(Gpt2, HasThePublishedNumbersOfParameters) {
  ModelContext context{{1024}, 50257, 0};
  context.device = at::kMeta;
  const auto small = MakeGpt2({12, 12, 768, 1024, 50257, 0}, context);
  ASSERT_OK(small);
  EXPECT_EQ((*small)->ParameterCount(), 124'439'808);
}

TEST(Gpt2, HasHuggingFacesNamesAndNoHeadOfItsOwn) {
  const auto model = SmallGpt2();
  std::set<std::string> names;
  for (const ModelTensor& entry : model->state()) names.insert(entry.name);
  EXPECT_EQ(names.size(), 2u + 2 * 12 + 2);
  for (const char* name : {"transformer.wte.weight", "transformer.wpe.weight",
                           "transformer.h.1.ln_1.bias", "transformer.h.0.attn.c_attn.weight",
                           "transformer.h.1.attn.c_proj.bias", "transformer.h.0.mlp.c_fc.weight",
                           "transformer.h.1.mlp.c_proj.weight", "transformer.ln_f.weight"}) {
    EXPECT_EQ(names.count(name), 1u) << name;
  }
  EXPECT_EQ(names.count("lm_head.weight"), 0u);
  // A Conv1D's weight lies as [in, out].
  EXPECT_EQ(model->parameters()[4].tensor.sizes(), at::IntArrayRef({16, 48}));
}

TEST(Gpt2, SeesNoTokenThatComesLater) {
  const auto model = SmallGpt2();
  const at::Tensor tokens = SomeTokens();
  const at::Tensor before = model->Forward(tokens).values;
  EXPECT_EQ(before.sizes(), at::IntArrayRef({3, 8, 50}));
  const at::Tensor changed = tokens.clone();
  changed.select(1, 5).fill_(49);
  const at::Tensor after = model->Forward(changed).values;
  EXPECT_TRUE(at::allclose(before.narrow(1, 0, 5), after.narrow(1, 0, 5), 1e-5, 1e-6));
  EXPECT_FALSE(at::allclose(before.narrow(1, 5, 1), after.narrow(1, 5, 1), 1e-5, 1e-6));
}

TEST(Gpt2, TakesRowsBelowItsContextAndGivesEveryWeightAGradient) {
  const auto model = SmallGpt2();
  const at::Tensor logits = model->Forward(SomeTokens().narrow(1, 0, 3)).values;
  EXPECT_EQ(logits.sizes(), at::IntArrayRef({3, 3, 50}));
  torch::autograd::backward({logits.square().sum()}, {});
  for (const ModelTensor& parameter : model->parameters()) {
    ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
    EXPECT_GT(parameter.tensor.grad().abs().sum().item<float>(), 0) << parameter.name;
  }
}

TEST(Gpt2, DropsOutWhileItTrainsOnly) {
  const auto model = SmallGpt2(/*dropout=*/0.5);
  const at::Tensor tokens = SomeTokens();
  EXPECT_FALSE(at::equal(model->Forward(tokens).values, model->Forward(tokens).values));
  model->SetTraining(false);
  EXPECT_TRUE(at::equal(model->Forward(tokens).values, model->Forward(tokens).values));
}

// Who asks for nothing special, as an export does, gets logits, also after one who did.
TEST(Gpt2, LeavesTheHeadOfALargeVocabularyToWhoTakesItApart) {
  const at::Tensor tokens = SomeTokens();
  const auto small = SmallGpt2();
  EXPECT_TRUE(small->ForwardOf({.head_apart = true}, tokens).values.defined());

  auto large = MakeGpt2({2, 2, 16, 8, kLargeVocabulary, 0}, {{8}, 50, 3});
  ASSERT_OK(large);
  const ModelOutput apart = (*large)->ForwardOf({.head_apart = true}, tokens);
  EXPECT_FALSE(apart.values.defined());
  EXPECT_EQ(apart.hidden.sizes(), at::IntArrayRef({3, 8, 16}));
  EXPECT_TRUE(apart.table.is_same((*large)->parameters()[0].tensor));
  for (const ModelOutput& whole : {(*large)->Forward(tokens), (*large)->ForwardOf({}, tokens)}) {
    EXPECT_FALSE(whole.table.defined());
    EXPECT_TRUE(at::equal(whole.values, at::linear(apart.hidden, apart.table)));
  }
}

TEST(Gpt2, RefusesDataThatDoesNotFit) {
  const Gpt2Config config{2, 2, 16, 8, 50, 0};
  const auto refusal = [](const Gpt2Config& c, const ModelContext& context) {
    return MakeGpt2(c, context).status();
  };
  EXPECT_THAT(refusal(config, {{1, 8, 8}, 10, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[1, 8, 8]")));
  EXPECT_THAT(refusal(config, {{9}, 50, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("model.gpt2.context")));
  EXPECT_THAT(refusal(config, {{8}, 51, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("model.gpt2.vocabulary")));
  EXPECT_THAT(refusal({2, 3, 16, 8, 50, 0}, {{8}, 50, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("multiple of 3 heads")));
}

}  // namespace
}  // namespace muster::worker
