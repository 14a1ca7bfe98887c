// A dense layer with its activation, as one node of autograd's graph.
//
// Used by all models. Of operators it would be four nodes (a transpose, a product, a sum over the
// rows, an activation); to keep them takes longer, on a CPU, than a small layer's arithmetic other
// than its products.
#pragma once

#include <ATen/core/Tensor.h>

namespace muster::worker {

enum class Activation { kNone, kRelu };

// activation(x weight_OI^T + bias_O): [..., O] of x, [..., I]. Only fp32 on the CPU that learns is
// one node. The rest goes through operators, which autocast, a tracer (it records no gradients) or
// a device wants to see one by one.
at::Tensor Dense(const at::Tensor& x, const at::Tensor& weight_OI, const at::Tensor& bias_O,
                 Activation activation = Activation::kNone);

}  // namespace muster::worker
