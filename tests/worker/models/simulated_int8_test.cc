#include "worker/models/simulated_int8.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "worker/models/gpt2.h"
#include "worker/models/mlp.h"

namespace muster::worker {
namespace {

TEST(QuantizeWeight, IsWithinHalfAScaleOfEachOutputChannel) {
  const at::Tensor weight = at::randn({6, 3, 2, 2});
  weight.select(0, 4).zero_();
  const QuantizedWeight rounded = QuantizeWeight(weight, /*channel_axis=*/0);
  EXPECT_EQ(rounded.values.scalar_type(), at::kChar);
  EXPECT_EQ(rounded.scales.sizes(), (std::vector<int64_t>{6, 1, 1, 1}));
  EXPECT_EQ(rounded.scales[4].item<float>(), 1) << "a channel of zeros";
  for (int64_t channel = 0; channel < 6; ++channel) {
    if (channel == 4) continue;
    EXPECT_EQ(rounded.values[channel].abs().max().item<int64_t>(), 127) << channel;
  }
  const at::Tensor distance = Dequantize(rounded).sub(weight).abs().div(rounded.scales);
  EXPECT_LE(distance.max().item<float>(), 0.5001f);
  EXPECT_EQ(QuantizeWeight(weight.view({6, 12}), 1).scales.sizes(), (std::vector<int64_t>{1, 12}));
}

TEST(ScaleOfRange, ZeroIsExact) {
  const InputScale relu = ScaleOfRange(0.5, 5.1);
  EXPECT_EQ(relu.zero_point, 0) << "the range is widened to hold 0";
  EXPECT_FLOAT_EQ(relu.scale, 5.1f / 255);
  EXPECT_EQ(ScaleOfRange(-1, 3).zero_point, 64) << "63.75";
  EXPECT_EQ(ScaleOfRange(-2, -1).zero_point, 255);
  EXPECT_EQ(ScaleOfRange(0, 0).scale, 1);
}

TEST(SimulatedInt8, GivesTheNetworksOwnOutputsUntilItIsRoundedAndCloseOnesAfterwards) {
  const at::NoGradGuard no_grad;
  const auto model = MakeMlp({{16, 8}}, {.input_shape = {12}, .classes = 4, .seed = 3});
  const at::Tensor inputs = at::randn({20, 12});
  const auto int8 = SimulatedInt8::Make(*model, inputs.narrow(0, 0, 2));
  const at::Tensor exact = model->Forward(inputs).values;
  EXPECT_TRUE(int8->Forward(inputs).values.equal(exact));
  EXPECT_TRUE(int8->layers().empty());

  int8->Calibrate(inputs.narrow(0, 0, 10));
  int8->Calibrate(inputs.narrow(0, 10, 10));
  int8->Round();
  ASSERT_EQ(int8->layers().size(), 3u);
  EXPECT_EQ(int8->layers()[0].weight, "0.weight");
  const InputScale whole = ScaleOfRange(inputs.min().item<double>(), inputs.max().item<double>());
  EXPECT_EQ(int8->layers()[0].input.scale, whole.scale) << "of both batches";
  EXPECT_EQ(int8->layers()[0].input.zero_point, whole.zero_point);
  const at::Tensor rounded = int8->Forward(inputs).values;
  EXPECT_FALSE(rounded.equal(exact));
  EXPECT_LT(rounded.sub(exact).abs().max().item<float>(), 0.05f * exact.abs().max().item<float>());
  // The weights alone are rounded in the network itself.
  EXPECT_FALSE(model->Forward(inputs).values.equal(rounded));
}

TEST(SimulatedInt8, OfGpt2EveryLayerIsRoundedByItsOutputChannelsAndTheTiedTableOnce) {
  const at::NoGradGuard no_grad;
  const auto model = MakeGpt2({.layers = 2, .heads = 2, .width = 8, .context = 6, .vocabulary = 10},
                              {.input_shape = {6}, .classes = 10, .seed = 3});
  ASSERT_OK(model);
  const at::Tensor tokens = at::arange(12).remainder(10).view({2, 6});
  const auto int8 = SimulatedInt8::Make(**model, tokens);
  const at::Tensor exact = (*model)->Forward(tokens).values;
  int8->Calibrate(tokens);
  int8->Round();
  ASSERT_EQ(int8->layers().size(), 2u * 4 + 1);
  for (const Int8Layer& layer : int8->layers()) {
    const bool table = layer.weight == "transformer.wte.weight";
    EXPECT_EQ(layer.quantized.scales.size(table ? 1 : 0), 1) << layer.weight;
  }
  EXPECT_LT(int8->Forward(tokens).values.sub(exact).abs().max().item<float>(), 0.05f);
}

}  // namespace
}  // namespace muster::worker
