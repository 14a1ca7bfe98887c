// Adam's and AdamW's update on a CPU, for one run of numbers.
//
// Used by the fused optimizers where all is fp32 and one thread works. at::_fused_adamw_ divides
// twice for each number, and the divider is what it waits for; here it is once, for 0.7 of the
// time. Results agree to rounding. Knows no torch.
#pragma once

#include <cstdint>

namespace muster::worker {

// What is the same for all numbers of a step.
struct AdamStep {
  double learning_rate = 0;
  double beta1 = 0, beta2 = 0, eps = 0;
  double weight_decay = 0;
  bool decoupled = false;  // AdamW's decay of the weights; else Adam's, added to the gradient
  double count = 1;        // of steps, with this one
};

// `weights` and both moments change in place; none of the four overlap.
void UpdateAdam(const AdamStep& step, int64_t count, const float* gradients, float* weights,
                float* first_moments, float* second_moments);

}  // namespace muster::worker
