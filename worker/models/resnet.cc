#include "worker/models/resnet.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "worker/models/layers/batch_norm.h"
#include "worker/models/layers/dense.h"
#include "worker/models/layers/init.h"
#include "worker/models/layers/recompute.h"

namespace muster::worker {
namespace {

constexpr int64_t kExpansion = 4;  // of a bottleneck's channels

// A convolution without bias and the batch norm behind it: they always come together here.
struct ConvNorm {
  at::Tensor conv_weight;  // [out, in, kernel, kernel]
  at::Tensor weight, bias, running_mean, running_var, num_batches_tracked;
  int64_t stride = 1;
  int64_t padding = 0;
};

// 18 and 34: two 3x3 convolutions. 50 and 101: 1x1, 3x3 with the block's stride, and a 1x1 that
// makes four times as many channels.
struct Residual {
  std::vector<ConvNorm> layers;
  std::optional<ConvNorm> downsample;

  // Of all of them.
  std::vector<at::Tensor> Parameters() const {
    std::vector<at::Tensor> parameters;
    const auto add = [&](const ConvNorm& layer) {
      parameters.insert(parameters.end(), {layer.conv_weight, layer.weight, layer.bias});
    };
    for (const ConvNorm& layer : layers) add(layer);
    if (downsample.has_value()) add(*downsample);
    return parameters;
  }
};

struct Stages {
  std::array<int64_t, 4> blocks;
  bool bottleneck;
};

Stages StagesOf(ResNetDepth depth) {
  switch (depth) {
    case ResNetDepth::k18:
      return {{2, 2, 2, 2}, false};
    case ResNetDepth::k34:
      return {{3, 4, 6, 3}, false};
    case ResNetDepth::k50:
      return {{3, 4, 6, 3}, true};
    case ResNetDepth::k101:
      return {{3, 4, 23, 3}, true};
  }
  MUSTER_CHECK(false, "a depth of ResNet that has no stages");
}

class ResNet final : public Model {
 public:
  ResNet(const ResNetConfig& config, const ModelContext& context)
      : context_(context), config_(config), init_(context.seed, context.device) {
    const auto [blocks, bottleneck] = StagesOf(config.depth);
    const bool imagenet = config.imagenet_stem;
    stem_ = AddConvNorm("conv1", "bn1",
                        {context.input_shape[0], config.width, imagenet ? 7 : 3, imagenet ? 2 : 1});
    int64_t channels = config.width;
    for (int64_t stage = 0; stage < 4; ++stage) {
      const int64_t inner = config.width << stage;
      for (int64_t index = 0; index < blocks[static_cast<size_t>(stage)]; ++index) {
        const int64_t stride = stage > 0 && index == 0 ? 2 : 1;
        const std::string prefix = absl::StrCat("layer", stage + 1, ".", index, ".");
        blocks_.push_back(bottleneck ? AddBottleneck(prefix, channels, inner, stride)
                                     : AddBasicBlock(prefix, channels, inner, stride));
        channels = bottleneck ? kExpansion * inner : inner;
      }
    }
    fc_weight_ =
        AddParameter("fc.weight", init_.LinearWeight(context.classes, channels), context.device);
    fc_bias_ = AddParameter("fc.bias", init_.LinearBias(context.classes, channels), context.device);
    JoinBuffers();
  }

  ModelOutput Forward(const at::Tensor& inputs) override {
    at::Tensor x = Run(stem_, inputs.contiguous(context_.picture_format)).relu_();
    if (config_.imagenet_stem) x = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1});
    x = RunOrRecompute(blocks_, std::move(x), context_.checkpoint_blocks && training(),
                       [this](const Residual& block, const at::Tensor& in, Pass pass) {
                         return Run(block, in, pass);
                       });
    return {Dense(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1), fc_weight_, fc_bias_)};
  }

 private:
  struct ConvShape {
    int64_t in, out, kernel, stride;
  };

  ConvNorm AddConvNorm(const std::string& conv, const std::string& norm, const ConvShape& shape,
                       double norm_weight = 1) {
    const at::Device device = context_.device;
    ConvNorm layer;
    layer.stride = shape.stride;
    layer.padding = shape.kernel / 2;
    layer.conv_weight = AddParameter(conv + ".weight",
                                     init_.ConvolutionWeight(shape.out, shape.in, shape.kernel)
                                         .contiguous(context_.picture_format),
                                     device);
    layer.weight = AddParameter(norm + ".weight", at::full({shape.out}, norm_weight), device);
    layer.bias = AddParameter(norm + ".bias", at::zeros({shape.out}), device);
    layer.running_mean = AddBuffer(norm + ".running_mean", at::zeros({shape.out}), device);
    layer.running_var = AddBuffer(norm + ".running_var", at::ones({shape.out}), device);
    layer.num_batches_tracked =
        AddBuffer(norm + ".num_batches_tracked", at::zeros({}, at::kLong), device);
    return layer;
  }

  double LastNormWeight() const { return config_.zero_init_residual ? 0.0 : 1.0; }

  Residual AddBasicBlock(const std::string& prefix, int64_t in, int64_t out, int64_t stride) {
    Residual block;
    block.layers = {
        AddConvNorm(prefix + "conv1", prefix + "bn1", {in, out, 3, stride}),
        AddConvNorm(prefix + "conv2", prefix + "bn2", {out, out, 3, 1}, LastNormWeight())};
    block.downsample = AddDownsample(prefix, in, out, stride);
    return block;
  }

  Residual AddBottleneck(const std::string& prefix, int64_t in, int64_t inner, int64_t stride) {
    const int64_t out = kExpansion * inner;
    Residual block;
    block.layers = {
        AddConvNorm(prefix + "conv1", prefix + "bn1", {in, inner, 1, 1}),
        AddConvNorm(prefix + "conv2", prefix + "bn2", {inner, inner, 3, stride}),
        AddConvNorm(prefix + "conv3", prefix + "bn3", {inner, out, 1, 1}, LastNormWeight())};
    block.downsample = AddDownsample(prefix, in, out, stride);
    return block;
  }

  std::optional<ConvNorm> AddDownsample(const std::string& prefix, int64_t in, int64_t out,
                                        int64_t stride) {
    if (stride == 1 && in == out) return std::nullopt;
    return AddConvNorm(prefix + "downsample.0", prefix + "downsample.1", {in, out, 1, stride});
  }

  at::Tensor Run(const Residual& block, const at::Tensor& x, Pass pass) {
    at::Tensor y = x;
    for (size_t i = 0; i < block.layers.size(); ++i) {
      // In place, as in the reference: batch norm's backward pass needs its input, not its output.
      y = Run(block.layers[i], i == 0 ? y : y.relu_(), pass);
    }
    y.add_(block.downsample.has_value() ? Run(*block.downsample, x, pass) : x);
    return y.relu_();
  }

  at::Tensor Run(const ConvNorm& layer, const at::Tensor& x, Pass pass = Pass::kFirst) {
    // Nothing of a frozen layer changes: its batch norm normalises as in evaluation.
    const bool learning = training() && layer.weight.requires_grad();
    if (learning && pass == Pass::kFirst) at::Tensor(layer.num_batches_tracked).add_(1);
    const at::Tensor y = at::conv2d(x, layer.conv_weight, /*bias=*/{}, {layer.stride, layer.stride},
                                    {layer.padding, layer.padding});
    // Without running statistics the batch's are used just so, and nothing is updated.
    const bool again = learning && pass == Pass::kAgain;
    return BatchNorm(y,
                     {layer.weight, layer.bias, again ? at::Tensor() : layer.running_mean,
                      again ? at::Tensor() : layer.running_var},
                     learning, {batch_norm_gang(), samples().count});
  }

  const ModelContext context_;
  const ResNetConfig config_;
  Initializer init_;
  ConvNorm stem_;
  std::vector<Residual> blocks_;
  at::Tensor fc_weight_, fc_bias_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> MakeResNet(const ResNetConfig& config,
                                                  const ModelContext& context) {
  if (context.input_shape.size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a ResNet wants samples of shape [channels, height, width], but the data has [",
        absl::StrJoin(context.input_shape, ", "), "]: choose `mlp`, or other data"));
  }
  return std::make_unique<ResNet>(config, context);
}

}  // namespace muster::worker
