#include "worker/dist/strategy/gradient_norm.h"

#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>

#include "worker/kernels/sum_of_squares.h"

namespace muster::worker {
namespace {

bool OnCpu(const at::Tensor& gradient) {
  return gradient.is_cpu() && gradient.scalar_type() == at::kFloat &&
         gradient.is_non_overlapping_and_dense();
}

}  // namespace

at::Tensor GradientNorm(const std::vector<at::Tensor>& gradients) {
  if (std::all_of(gradients.begin(), gradients.end(), OnCpu)) {
    double sum = 0;
    for (const at::Tensor& gradient : gradients)
      sum += SumOfSquares(gradient.const_data_ptr<float>(), gradient.numel());
    return at::full({}, std::sqrt(sum), at::kFloat);
  }
  if (gradients.size() == 1) return at::linalg_vector_norm(gradients.front(), 2);
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2)), 2);
}

}  // namespace muster::worker
