#include "worker/models/dense.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <vector>

namespace muster::worker {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What of `gradient` [rows, columns] passes an activation whose results were `active`, and the sums
// of that over the rows. Inlined into a caller for each instruction set, and vectorised there.
template <Activation kActivation>
[[gnu::always_inline]] inline void Pass(int64_t rows, const float* __restrict gradient,
                                        const float* __restrict active, float* __restrict passed,
                                        std::vector<double>& column_sums) {
  const int64_t columns = static_cast<int64_t>(column_sums.size());
  double* __restrict sums = column_sums.data();
  for (int64_t at = 0; at < rows * columns; at += columns) {
    for (int64_t i = 0; i < columns; ++i) {
      float value = gradient[at + i];
      if constexpr (kActivation == Activation::kRelu) {
        value = active[at + i] > 0 ? value : 0.0f;
        passed[at + i] = value;
      }
      sums[i] += value;
    }
  }
}

#if defined(__x86_64__)
template <Activation kActivation>
[[gnu::target("avx2")]] void PassAvx2(int64_t rows, const float* gradient, const float* active,
                                      float* passed, std::vector<double>& column_sums) {
  Pass<kActivation>(rows, gradient, active, passed, column_sums);
}
#endif

template <Activation kActivation>
void PassFast(int64_t rows, const float* gradient, const float* active, float* passed,
              std::vector<double>& column_sums) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2"))
    return PassAvx2<kActivation>(rows, gradient, active, passed, column_sums);
#endif
  Pass<kActivation>(rows, gradient, active, passed, column_sums);
}

template <Activation kActivation>
class DenseNode final : public torch::autograd::Function<DenseNode<kActivation>> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_BI,
                            const at::Tensor& weight_OI, const at::Tensor& bias_O) {
    at::Tensor y_BO = at::addmm(bias_O, x_BI, weight_OI.t());
    if constexpr (kActivation == Activation::kRelu) y_BO.relu_();
    context->save_for_backward({x_BI, weight_OI, kRemembers ? y_BO : at::Tensor()});
    return y_BO;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x_BI = saved[0], &weight_OI = saved[1], &y_BO = saved[2];
    const at::Tensor gradient_BO = gradients[0].contiguous();
    const at::Tensor passed_BO = kRemembers ? at::empty_like(y_BO) : gradient_BO;
    std::vector<double> sums(gradient_BO.size(1));
    PassFast<kActivation>(gradient_BO.size(0), gradient_BO.const_data_ptr<float>(),
                          kRemembers ? y_BO.const_data_ptr<float>() : nullptr,
                          kRemembers ? passed_BO.mutable_data_ptr<float>() : nullptr, sums);
    at::Tensor bias_gradient_O = at::empty({gradient_BO.size(1)}, gradient_BO.options());
    std::copy(sums.begin(), sums.end(), bias_gradient_O.mutable_data_ptr<float>());
    at::Tensor x_gradient_BI;
    if (context->needs_input_grad(0)) x_gradient_BI = at::mm(passed_BO, weight_OI);
    return {x_gradient_BI, at::mm(passed_BO.t(), x_BI), bias_gradient_O};
  }

 private:
  static constexpr bool kRemembers = kActivation != Activation::kNone;
};

bool IsOneNode(const at::Tensor& x, const at::Tensor& weight) {
  return at::GradMode::is_enabled() && weight.requires_grad() && x.is_cpu() && x.dim() == 2 &&
         x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat &&
         !at::autocast::is_autocast_enabled(at::kCPU) && !torch::jit::tracer::isTracing();
}

}  // namespace

at::Tensor Dense(const at::Tensor& x_BI, const at::Tensor& weight_OI, const at::Tensor& bias_O,
                 Activation activation) {
  const bool relu = activation == Activation::kRelu;
  if (IsOneNode(x_BI, weight_OI)) {
    return relu ? DenseNode<Activation::kRelu>::apply(x_BI, weight_OI, bias_O)
                : DenseNode<Activation::kNone>::apply(x_BI, weight_OI, bias_O);
  }
  at::Tensor y_BO = at::linear(x_BI, weight_OI, bias_O);
  return relu ? y_BO.relu_() : y_BO;
}

}  // namespace muster::worker
