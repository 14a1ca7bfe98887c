#include "worker/models/resnet.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/models/init.h"
#include "worker/models/recompute.h"

namespace muster::worker {
namespace {

constexpr double kBatchNormMomentum = 0.1;
constexpr double kBatchNormEpsilon = 1e-5;

// A convolution without bias and the batch norm behind it: they always come together here.
struct ConvNorm {
  at::Tensor conv_weight;  // [out, in, kernel, kernel]
  at::Tensor weight, bias, running_mean, running_var, num_batches_tracked;
  int64_t stride = 1;
  int64_t padding = 0;
};

struct Residual {
  ConvNorm first, second;
  std::optional<ConvNorm> downsample;
  std::vector<at::Tensor> parameters;  // of all of them
};

class ResNet18 final : public Model {
 public:
  ResNet18(const ResNet18Config& config, const ModelContext& context)
      : context_(context), init_(context.seed), imagenet_stem_(config.imagenet_stem) {
    const int64_t width = config.width;
    const int64_t kernel = imagenet_stem_ ? 7 : 3;
    stem_ = AddConvNorm("conv1", "bn1",
                        {context.input_shape[0], width, kernel, imagenet_stem_ ? 2 : 1});
    int64_t channels = width;
    for (int64_t stage = 0; stage < 4; ++stage) {
      const int64_t out = width << stage;
      for (int64_t index = 0; index < 2; ++index) {
        const int64_t stride = stage > 0 && index == 0 ? 2 : 1;
        blocks_.push_back(
            AddBlock(absl::StrCat("layer", stage + 1, ".", index, "."), channels, out, stride));
        channels = out;
      }
    }
    fc_weight_ =
        AddParameter("fc.weight", init_.LinearWeight(context.classes, channels), context.device);
    fc_bias_ = AddParameter("fc.bias", init_.LinearBias(context.classes, channels), context.device);
    JoinBuffers();
  }

  ModelOutput Forward(const at::Tensor& inputs) override {
    at::Tensor x = Run(stem_, inputs).relu_();
    if (imagenet_stem_) x = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1});
    for (const Residual& block : blocks_) {
      if (!context_.checkpoint_blocks || !training()) {
        x = Run(block, x, Pass::kFirst);
        continue;
      }
      const auto run = [this, &block](const std::vector<at::Tensor>& inputs, Pass pass) {
        return Run(block, inputs.front(), pass);
      };
      x = Recompute(run, block.parameters, {x});
    }
    return {at::linear(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1), fc_weight_, fc_bias_)};
  }

 private:
  struct ConvShape {
    int64_t in, out, kernel, stride;
  };

  ConvNorm AddConvNorm(const std::string& conv, const std::string& norm, const ConvShape& shape) {
    const at::Device device = context_.device;
    ConvNorm layer;
    layer.stride = shape.stride;
    layer.padding = shape.kernel / 2;
    layer.conv_weight = AddParameter(
        conv + ".weight", init_.ConvolutionWeight(shape.out, shape.in, shape.kernel), device);
    layer.weight = AddParameter(norm + ".weight", at::ones({shape.out}), device);
    layer.bias = AddParameter(norm + ".bias", at::zeros({shape.out}), device);
    layer.running_mean = AddBuffer(norm + ".running_mean", at::zeros({shape.out}), device);
    layer.running_var = AddBuffer(norm + ".running_var", at::ones({shape.out}), device);
    layer.num_batches_tracked =
        AddBuffer(norm + ".num_batches_tracked", at::zeros({}, at::kLong), device);
    return layer;
  }

  Residual AddBlock(const std::string& prefix, int64_t in, int64_t out, int64_t stride) {
    const size_t before = parameters().size();
    Residual block;
    block.first = AddConvNorm(prefix + "conv1", prefix + "bn1", {in, out, 3, stride});
    block.second = AddConvNorm(prefix + "conv2", prefix + "bn2", {out, out, 3, 1});
    if (stride != 1 || in != out) {
      block.downsample =
          AddConvNorm(prefix + "downsample.0", prefix + "downsample.1", {in, out, 1, stride});
    }
    for (size_t i = before; i < parameters().size(); ++i)
      block.parameters.push_back(parameters()[i].tensor);
    return block;
  }

  at::Tensor Run(const Residual& block, const at::Tensor& x, Pass pass) {
    // In place, as in the reference: batch norm's backward pass needs its input, not its output.
    at::Tensor y = Run(block.second, Run(block.first, x, pass).relu_(), pass);
    y.add_(block.downsample.has_value() ? Run(*block.downsample, x, pass) : x);
    return y.relu_();
  }

  at::Tensor Run(const ConvNorm& layer, const at::Tensor& x, Pass pass = Pass::kFirst) {
    if (training() && pass == Pass::kFirst) at::Tensor(layer.num_batches_tracked).add_(1);
    const at::Tensor y = at::conv2d(x, layer.conv_weight, /*bias=*/{}, {layer.stride, layer.stride},
                                    {layer.padding, layer.padding});
    // Without running statistics the batch's are used just so, and nothing is updated.
    const bool again = pass == Pass::kAgain;
    return at::batch_norm(y, layer.weight, layer.bias, again ? at::Tensor() : layer.running_mean,
                          again ? at::Tensor() : layer.running_var, training(), kBatchNormMomentum,
                          kBatchNormEpsilon, /*cudnn_enabled=*/true);
  }

  const ModelContext context_;
  Initializer init_;
  const bool imagenet_stem_;
  ConvNorm stem_;
  std::vector<Residual> blocks_;
  at::Tensor fc_weight_, fc_bias_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> MakeResNet18(const ResNet18Config& config,
                                                    const ModelContext& context) {
  if (context.input_shape.size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "resnet18 wants samples of shape [channels, height, width], but the data has [",
        absl::StrJoin(context.input_shape, ", "), "]: choose `mlp`, or other data"));
  }
  return std::make_unique<ResNet18>(config, context);
}

}  // namespace muster::worker
