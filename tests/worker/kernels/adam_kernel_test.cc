#include "worker/kernels/adam_kernel.h"

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace muster::worker {
namespace {

constexpr double kRate = 1e-2, kBeta1 = 0.9, kBeta2 = 0.99, kEps = 1e-8, kDecay = 0.1;

struct Numbers {
  at::Tensor weights, first, second;
};

Numbers Start(int64_t count) {
  return {at::full({count}, 0.5), at::zeros({count}), at::zeros({count})};
}

void UpdateByTorch(bool decoupled, int step, const at::Tensor& gradients, const Numbers& numbers) {
  const std::vector<at::Tensor> weights = {numbers.weights}, g = {gradients};
  const std::vector<at::Tensor> first = {numbers.first}, second = {numbers.second};
  const std::vector<at::Tensor> steps = {at::full({}, step, at::kFloat)};
  if (decoupled) {
    at::_fused_adamw_(weights, g, first, second, {}, steps, kRate, kBeta1, kBeta2, kDecay, kEps,
                      /*amsgrad=*/false, /*maximize=*/false);
  } else {
    at::_fused_adam_(weights, g, first, second, {}, steps, kRate, kBeta1, kBeta2, kDecay, kEps,
                     /*amsgrad=*/false, /*maximize=*/false);
  }
}

double LargestAbsDifference(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>();
}

TEST(AdamKernel, AgreesWithTorchsForEveryRemainderOfVectors) {
  for (const bool decoupled : {false, true}) {
    for (const int64_t count : {1, 7, 8, 31, 1000, 4097}) {
      const Numbers ours = Start(count), torchs = Start(count);
      for (int step = 1; step <= 20; ++step) {
        const at::Tensor gradients = at::randn({count});
        UpdateAdam({kRate, kBeta1, kBeta2, kEps, kDecay, decoupled, static_cast<double>(step)},
                   count, gradients.const_data_ptr<float>(), ours.weights.mutable_data_ptr<float>(),
                   ours.first.mutable_data_ptr<float>(), ours.second.mutable_data_ptr<float>());
        UpdateByTorch(decoupled, step, gradients, torchs);
      }
      EXPECT_LT(LargestAbsDifference(ours.weights, torchs.weights), 2e-6) << count;
      EXPECT_LT(LargestAbsDifference(ours.first, torchs.first), 1e-6) << count;
      EXPECT_LT(LargestAbsDifference(ours.second, torchs.second), 1e-6) << count;
      EXPECT_GT(LargestAbsDifference(ours.weights, Start(count).weights), 1e-3)
          << "nothing learned";
    }
  }
}

TEST(AdamKernel, TakesAStepOfTheLearningRateWhenNothingIsKnownYet) {
  float weight = 1, first = 0, second = 0;
  const float gradient = -3;
  UpdateAdam({kRate, kBeta1, kBeta2, kEps, /*weight_decay=*/0, true, 1}, 1, &gradient, &weight,
             &first, &second);
  EXPECT_FLOAT_EQ(weight, 1.01f);
}

}  // namespace
}  // namespace muster::worker
