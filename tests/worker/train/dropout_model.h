// A model for tests: two linear layers with dropout between, so that what it gives depends on the
// generators.
#pragma once

#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>

#include <memory>
#include <vector>

#include "worker/models/base/model.h"
#include "worker/models/layers/init.h"

namespace muster::testing {

class DropoutModel final : public worker::Model {
 public:
  explicit DropoutModel(const worker::ModelContext& context) {
    worker::Initializer init(context.seed);
    const int64_t features = context.input_shape[0];
    first_ = AddParameter("first", init.LinearWeight(32, features), context.device);
    second_ = AddParameter("second", init.LinearWeight(context.classes, 32), context.device);
  }

  worker::ModelOutput Forward(const at::Tensor& inputs) override {
    const at::Tensor hidden = at::dropout(at::linear(inputs, first_), 0.5, training());
    if (training()) dropped.push_back(hidden.detach().eq(0));
    return {at::linear(hidden, second_)};
  }

  std::vector<at::Tensor> dropped;  // of each training pass

 private:
  at::Tensor first_, second_;
};

}  // namespace muster::testing
