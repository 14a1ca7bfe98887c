#include "worker/models/layers/dense.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "worker/kernels/dense_backward.h"

namespace muster::worker {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// All axes but the last as one.
at::Tensor Rows(const at::Tensor& x) { return x.dim() == 2 ? x : x.reshape({-1, x.size(-1)}); }

// The sizes of `x`, with another extent of the last axis.
std::vector<int64_t> SizesWith(const at::Tensor& x, int64_t last) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = last;
  return sizes;
}

template <Activation kActivation>
class DenseNode final : public torch::autograd::Function<DenseNode<kActivation>> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight_OI, const at::Tensor& bias_O) {
    const at::Tensor x_RI = Rows(x);
    at::Tensor y_RO = at::addmm(bias_O, x_RI, weight_OI.t());
    if constexpr (kRemembers) y_RO.relu_();
    // Not a view, which nobody could change in place.
    const at::Tensor y = at::_unsafe_view(y_RO, SizesWith(x, weight_OI.size(0)));
    context->save_for_backward({x_RI, weight_OI, kRemembers ? y : at::Tensor()});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x_RI = saved[0], &weight_OI = saved[1], &y = saved[2];
    const at::Tensor gradient_RO = Rows(gradients[0]).contiguous();
    const at::Tensor passed_RO = kRemembers ? at::empty_like(gradient_RO) : gradient_RO;
    const int64_t rows = gradient_RO.size(0), columns = gradient_RO.size(1);
    const float* gradient = gradient_RO.const_data_ptr<float>();
    std::vector<double> sums(static_cast<size_t>(columns));
    if constexpr (kRemembers) {
      PassRelu(rows, columns, gradient, y.const_data_ptr<float>(),
               passed_RO.mutable_data_ptr<float>(), sums.data());
    } else {
      SumRows(rows, columns, gradient, sums.data());
    }
    const at::Tensor bias_gradient_O = at::empty({columns}, gradient_RO.options());
    std::copy(sums.begin(), sums.end(), bias_gradient_O.mutable_data_ptr<float>());
    at::Tensor x_gradient;
    if (context->needs_input_grad(0)) {
      x_gradient = at::mm(passed_RO, weight_OI).view(SizesWith(gradients[0], weight_OI.size(1)));
    }
    return {x_gradient, at::mm(passed_RO.t(), x_RI), bias_gradient_O};
  }

 private:
  static constexpr bool kRemembers = kActivation != Activation::kNone;
};

bool IsOneNode(const at::Tensor& x, const at::Tensor& weight) {
  return at::GradMode::is_enabled() && weight.requires_grad() && x.is_cpu() &&
         x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat &&
         !at::autocast::is_autocast_enabled(at::kCPU);
}

}  // namespace

at::Tensor Dense(const at::Tensor& x, const at::Tensor& weight_OI, const at::Tensor& bias_O,
                 Activation activation) {
  const bool relu = activation == Activation::kRelu;
  if (IsOneNode(x, weight_OI)) {
    return relu ? DenseNode<Activation::kRelu>::apply(x, weight_OI, bias_O)
                : DenseNode<Activation::kNone>::apply(x, weight_OI, bias_O);
  }
  at::Tensor y = at::linear(x, weight_OI, bias_O);
  return relu ? y.relu_() : y;
}

}  // namespace muster::worker
