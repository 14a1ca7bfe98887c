#include "worker/models/layers/batch_norm.h"

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/batch_norm_backward_elemt.h>
#include <ATen/ops/batch_norm_backward_reduce.h>
#include <ATen/ops/batch_norm_stats.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "worker/dist/collectives.h"

namespace muster::worker {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// All but the channels.
std::vector<int64_t> ReducedDims(const at::Tensor& x) {
  std::vector<int64_t> dims = {0};
  for (int64_t dim = 2; dim < x.dim(); ++dim) dims.push_back(dim);
  return dims;
}

// [C] beside an x of [B, C, ...].
at::Tensor Channels(const at::Tensor& values, const at::Tensor& x) {
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[1] = values.size(0);
  return values.view(shape);
}

void CheckVariance(int64_t values) {
  TORCH_CHECK(
      values > 1, kOneValue,
      "a batch of one sample came to a layer that sees one pixel of it, and a single value "
      "has no variance: choose a train.batch_size that leaves two samples for each rank and "
      "micro-batch (train.accumulate), in the short last batch of a run in epochs, too; or "
      "train.parallel.sync_batch_norm");
}

struct Statistics {
  at::Tensor mean, variance;  // float [C]; the variance of the population
  at::Tensor count;           // double [1]: values of each channel, over all ranks
};

// Mean and variance of the population, double [C]. CUDA has kernels of its own for batch norm over
// several processes, which read a tensor once, in whatever type.
std::pair<at::Tensor, at::Tensor> MeanAndVariance(const at::Tensor& x) {
  if (x.is_cuda()) {
    const auto [mean, inverse] = at::batch_norm_stats(x, kBatchNormEpsilon);
    return {mean.to(at::kDouble), inverse.to(at::kDouble).pow(-2).sub(kBatchNormEpsilon)};
  }
  const auto [variance, mean] =
      at::var_mean(x.to(at::kFloat), ReducedDims(x), /*correction=*/0, /*keepdim=*/false);
  return {mean.to(at::kDouble), variance.to(at::kDouble)};
}

// [2 C + 1] doubles of this rank: of each channel sum and sum of squares, then the count.
at::Tensor SumsOf(const at::Tensor& x, bool counts) {
  const auto options = x.options().dtype(at::kDouble).requires_grad(false);
  if (!counts) return at::zeros({2 * x.size(1) + 1}, options);
  const auto [mean64, variance64] = MeanAndVariance(x);
  const at::Tensor square64 = variance64.add(mean64.square());
  const double count = static_cast<double>(x.numel() / x.size(1));
  return at::cat({mean64.mul(count), square64.mul(count), at::full({1}, count, options)});
}

// One exchange: count, sum and sum of squares. As doubles, for their difference is the variance.
Statistics OverGang(const at::Tensor& x, const BatchNormBatch& batch) {
  at::Tensor sums = SumsOf(x, batch.counts);
  batch.gang->AllReduceSum(sums);
  const int64_t channels = x.size(1);
  Statistics all;
  all.count = sums.narrow(0, 2 * channels, 1);
  // A device is not waited for: there the running variance says nothing of a single value.
  if (x.is_cpu()) CheckVariance(static_cast<int64_t>(all.count.item<double>()));
  const at::Tensor mean_of_all = sums.narrow(0, 0, channels).div(all.count);
  const at::Tensor square_of_all = sums.narrow(0, channels, channels).div(all.count);
  all.mean = mean_of_all.to(at::kFloat);
  all.variance = square_of_all.sub(mean_of_all.square()).clamp_min(0).to(at::kFloat);
  return all;
}

// Not inputs of the function: autograd takes no undefined ones.
struct Running {
  at::Tensor mean, variance;
};

class GangBatchNorm : public torch::autograd::Function<GangBatchNorm> {
 public:
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& weight,
                          const Variable& bias, const Running& running,
                          const BatchNormBatch& batch) {
    const Statistics all = OverGang(x, batch);
    if (running.mean.defined()) {
      const at::Tensor others = all.count.sub(1).clamp_min(1);
      const at::Tensor unbiased = all.variance.mul(all.count.div(others).to(at::kFloat));
      at::Tensor(running.mean).lerp_(all.mean, kBatchNormMomentum);
      at::Tensor(running.variance).lerp_(unbiased, kBatchNormMomentum);
    }
    context->save_for_backward({x, weight, all.mean, all.variance, all.count});
    // The gang outlives the backward pass by contract.
    context->saved_data["gang"] = reinterpret_cast<int64_t>(batch.gang);
    context->saved_data["counts"] = batch.counts;
    return std::get<0>(at::native_batch_norm(x, weight, bias, all.mean, all.variance,
                                             /*training=*/false, kBatchNormMomentum,
                                             kBatchNormEpsilon));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const int64_t channels = x.size(1);
    auto* gang = reinterpret_cast<Collectives*>(context->saved_data["gang"].toInt());
    if (!context->saved_data["counts"].toBool()) {
      at::Tensor none = at::zeros({2 * channels}, x.options().dtype(at::kFloat));
      gang->AllReduceSum(none);
      const at::Tensor zeros = at::zeros({channels}, none.options());
      return {at::zeros_like(x), zeros, zeros.clone(), Variable(), Variable()};
    }
    const at::Tensor inverse_deviation = saved[3].add(kBatchNormEpsilon).rsqrt();
    if (x.is_cuda()) return BackwardOnCuda(saved, inverse_deviation, gradients[0], *gang);
    const at::Tensor centered = x.sub(Channels(saved[2], x));
    const at::Tensor dy = gradients[0].to(at::kFloat);  // it may come in half precision
    const at::Tensor sum_dy = dy.sum(ReducedDims(x));
    const at::Tensor sum_dy_centered = dy.mul(centered).sum(ReducedDims(x));

    at::Tensor sums = at::cat({sum_dy, sum_dy_centered});
    gang->AllReduceSum(sums);
    const at::Tensor means = sums.div(saved[4].to(at::kFloat));
    const at::Tensor slope = means.narrow(0, channels, channels).mul(inverse_deviation.square());
    const at::Tensor dx = dy.sub(Channels(means.narrow(0, 0, channels), x))
                              .sub_(centered.mul(Channels(slope, x)))
                              .mul_(Channels(inverse_deviation.mul(saved[1]), x));
    // Of this rank's samples alone: the mean over the ranks is taken with all other gradients.
    return {dx.to(x.scalar_type()), sum_dy_centered.mul(inverse_deviation), sum_dy, Variable(),
            Variable()};
  }

 private:
  // The same by CUDA's own kernels.
  static variable_list BackwardOnCuda(const variable_list& saved,
                                      const at::Tensor& inverse_deviation,
                                      const at::Tensor& gradient, Collectives& gang) {
    const at::Tensor &x = saved[0], &weight = saved[1], &mean = saved[2];
    const at::Tensor dy = gradient.to(x.scalar_type()).contiguous(x.suggest_memory_format());
    const auto [sum_dy, sum_dy_centered, weight_gradient, bias_gradient] =
        at::batch_norm_backward_reduce(dy, x, mean, inverse_deviation, weight, /*input_g=*/true,
                                       /*weight_g=*/true, /*bias_g=*/true);
    at::Tensor sums = at::cat({sum_dy, sum_dy_centered});
    gang.AllReduceSum(sums);
    const int64_t channels = x.size(1);
    const at::Tensor dx = at::batch_norm_backward_elemt(
        dy, x, mean, inverse_deviation, weight, sums.narrow(0, 0, channels),
        sums.narrow(0, channels, channels), /*count=*/saved[4].to(at::kInt));
    return {dx, weight_gradient, bias_gradient, Variable(), Variable()};
  }
};

}  // namespace

at::Tensor BatchNorm(const at::Tensor& x, const BatchNormTensors& tensors, bool training,
                     const BatchNormBatch& batch) {
  if (training && batch.gang != nullptr && batch.gang->world_size() > 1) {
    return GangBatchNorm::apply(x, tensors.weight, tensors.bias,
                                Running{tensors.running_mean, tensors.running_var}, batch);
  }
  const bool alone = training && !batch.counts;
  if (training && !alone) CheckVariance(x.numel() / x.size(1));
  // Without running statistics the batch's are used just so, and nothing is updated.
  return at::batch_norm(x, tensors.weight, tensors.bias,
                        alone ? at::Tensor() : tensors.running_mean,
                        alone ? at::Tensor() : tensors.running_var, training, kBatchNormMomentum,
                        kBatchNormEpsilon, /*cudnn_enabled=*/true);
}

}  // namespace muster::worker
