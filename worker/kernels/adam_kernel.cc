#include "worker/kernels/adam_kernel.h"

#include <cmath>

#include "worker/kernels/instruction_sets.h"

namespace muster::worker {
namespace {

struct Factors {
  float keep;   // of the weights, by decoupled decay
  float decay;  // added to the gradient
  float beta1_rest, beta2, beta2_rest;
  float step_size;
  float root_scale;
  float eps;
};

Factors ToFactors(const AdamStep& step) {
  const double correction1 = 1 - std::pow(step.beta1, step.count);
  const double correction2 = 1 - std::pow(step.beta2, step.count);
  Factors factors;
  factors.keep =
      static_cast<float>(step.decoupled ? 1 - step.learning_rate * step.weight_decay : 1);
  factors.decay = static_cast<float>(step.decoupled ? 0 : step.weight_decay);
  factors.beta1_rest = static_cast<float>(1 - step.beta1);
  factors.beta2 = static_cast<float>(step.beta2);
  factors.beta2_rest = static_cast<float>(1 - step.beta2);
  factors.step_size = static_cast<float>(step.learning_rate / correction1);
  factors.root_scale = static_cast<float>(1 / std::sqrt(correction2));
  factors.eps = static_cast<float>(step.eps);
  return factors;
}

struct UpdateKernel {
  [[gnu::always_inline]] static void Run(const Factors& f, int64_t count,
                                         const float* __restrict gradients,
                                         float* __restrict weights, float* __restrict first,
                                         float* __restrict second) {
    for (int64_t i = 0; i < count; ++i) {
      const float gradient = gradients[i] + f.decay * weights[i];
      const float mean = first[i] + (gradient - first[i]) * f.beta1_rest;
      const float square = second[i] * f.beta2 + gradient * gradient * f.beta2_rest;
      first[i] = mean;
      second[i] = square;
      weights[i] =
          weights[i] * f.keep - f.step_size * mean / (std::sqrt(square) * f.root_scale + f.eps);
    }
  }
};

}  // namespace

void UpdateAdam(const AdamStep& step, int64_t count, const float* gradients, float* weights,
                float* first_moments, float* second_moments) {
  RunKernel<UpdateKernel>(ToFactors(step), count, gradients, weights, first_moments,
                          second_moments);
}

}  // namespace muster::worker
