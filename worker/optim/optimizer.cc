#include "worker/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/check.h"

namespace muster::worker {

Optimizer::Optimizer(const std::vector<OptimizedParameter>& parameters) {
  MUSTER_CHECK(!parameters.empty(), "an optimizer has parameters to train");
  for (const OptimizedParameter& parameter : parameters) {
    const auto same = std::find_if(sets_.begin(), sets_.end(), [&](const Set& set) {
      return set.lr_scale == parameter.lr_scale && set.weight_decay == parameter.weight_decay &&
             set.adapt == parameter.adapt;
    });
    Set& set = same != sets_.end() ? *same : sets_.emplace_back();
    set.lr_scale = parameter.lr_scale;
    set.weight_decay = parameter.weight_decay;
    set.adapt = parameter.adapt;
    set.members.push_back(parameters_.size());
    names_.push_back(parameter.name);
    parameters_.push_back(parameter.tensor.detach());
    set.parameters.push_back(parameters_.back());
  }
}

void Optimizer::AddMoments(const std::string& prefix) {
  std::vector<at::Tensor> moments;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    moments.push_back(at::zeros_like(parameters_[i]));
    state_.push_back({prefix + "." + names_[i], moments.back()});
  }
  for (Set& set : sets_) {
    std::vector<at::Tensor>& own = set.moments.emplace_back();
    for (const size_t i : set.members) own.push_back(moments[i]);
  }
}

void Optimizer::AddStepCounter() {
  step_ = at::zeros({}, parameters_.front().options().dtype(at::kFloat));
  state_.push_back({"step", step_});
  // The kernels want a counter for each parameter; they are always equal, so all are this one.
  for (Set& set : sets_) set.steps.assign(set.members.size(), step_);
}

std::vector<int64_t> Optimizer::StepBytes(bool may_skip) const {
  const int64_t copies = scratch().always + (may_skip ? scratch().may_skip : 0);
  std::vector<int64_t> most;
  int64_t most_bytes = 0;
  for (const Set& set : sets_) {  // one after the other
    std::vector<int64_t> own;
    for (const at::Tensor& parameter : set.parameters)
      own.insert(own.end(), static_cast<size_t>(copies), static_cast<int64_t>(parameter.nbytes()));
    const int64_t bytes = std::accumulate(own.begin(), own.end(), int64_t{0});
    if (bytes > most_bytes) most = std::move(own);
    most_bytes = std::max(most_bytes, bytes);
  }
  return most;
}

void Optimizer::CountStep() {
  if (step_.is_cpu()) {
    *step_.mutable_data_ptr<float>() += 1;  // an operator takes as long as a small layer's update
  } else {
    step_.add_(1);
  }
}

void Optimizer::Step(const std::vector<at::Tensor>& gradients, double learning_rate,
                     const at::Tensor& found_inf) {
  at::NoGradGuard no_grad;
  if (step_.defined()) CountStep();  // the kernels read it, but do not advance it
  for (Set& set : sets_) {
    if (sets_.size() == 1) {
      Update(set, gradients, learning_rate * set.lr_scale, found_inf);
      break;
    }
    std::vector<at::Tensor> own;
    own.reserve(set.members.size());
    for (const size_t i : set.members) own.push_back(gradients[i]);
    Update(set, own, learning_rate * set.lr_scale, found_inf);
  }
  if (step_.defined() && found_inf.defined()) step_.sub_(found_inf);
}

}  // namespace muster::worker
