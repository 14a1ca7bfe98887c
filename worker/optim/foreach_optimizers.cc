// lars, lamb and lion: torch has no fused kernel for them, so each operation is one call over all
// tensors of a set.
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sign.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include "worker/optim/optimizer.h"

namespace muster::worker {
namespace {

using Tensors = std::vector<at::Tensor>;

// torch 2.11 has no _foreach_clone.
Tensors CloneOf(const Tensors& tensors) {
  Tensors clones;
  for (const at::Tensor& tensor : tensors) clones.push_back(tensor.clone());
  return clones;
}

// Takes back what a step has done when the gradient was not finite, without asking the device:
// selects between copies and results there. Costs a copy of the lists, only where found_inf is
// given.
class TakeBack {
 public:
  TakeBack(const at::Tensor& found_inf, const std::vector<Tensors*>& lists) : lists_(lists) {
    if (!found_inf.defined()) return;
    skip_ = found_inf.to(at::kBool);
    for (const Tensors* list : lists_) before_.push_back(CloneOf(*list));
  }

  void IfSkipped() {
    for (size_t i = 0; i < before_.size(); ++i) {
      for (size_t j = 0; j < before_[i].size(); ++j) {
        at::Tensor& now = (*lists_[i])[j];
        at::where_out(now, skip_, before_[i][j], now);
      }
    }
  }

 private:
  const std::vector<Tensors*> lists_;
  at::Tensor skip_;
  std::vector<Tensors> before_;
};

// The L2 norm of each tensor: [tensors].
at::Tensor Norms(const Tensors& tensors) { return at::stack(at::_foreach_norm(tensors, 2)); }

// `ratio` where both norms are above zero, else 1; one 0-dim tensor for each element.
Tensors TrustRatios(const at::Tensor& ratio, const at::Tensor& norms, const at::Tensor& others) {
  const at::Tensor usable = norms.gt(0).logical_and(others.gt(0));
  return at::where(usable, ratio, at::ones_like(ratio)).unbind();
}

class Lars final : public Optimizer {
 public:
  Lars(const LarsConfig& config, const std::vector<OptimizedParameter>& parameters)
      : Optimizer(parameters), config_(config) {
    AddMoments("momentum");
  }

 private:
  Scratch scratch() const override { return {.always = 1, .may_skip = 2}; }

  void Update(Set& set, const Tensors& gradients, double learning_rate,
              const at::Tensor& found_inf) override {
    Tensors& momentum = set.moments[0];
    TakeBack take_back(found_inf, {&set.parameters, &momentum});
    Tensors update = set.weight_decay == 0
                         ? CloneOf(gradients)
                         : at::_foreach_add(gradients, set.parameters, set.weight_decay);
    if (set.adapt) {
      const at::Tensor weights = Norms(set.parameters);
      const at::Tensor slopes = Norms(gradients);
      const at::Tensor rate = weights.mul(config_.trust_coefficient)
                                  .div(slopes.add(weights, /*alpha=*/set.weight_decay));
      at::_foreach_mul_(update, TrustRatios(rate, weights, slopes));
    }
    at::_foreach_mul_(momentum, config_.momentum);
    at::_foreach_add_(momentum, update, learning_rate);
    at::_foreach_sub_(set.parameters, momentum);
    take_back.IfSkipped();
  }

  const LarsConfig config_;
};

class Lamb final : public Optimizer {
 public:
  Lamb(const LambConfig& config, const std::vector<OptimizedParameter>& parameters)
      : Optimizer(parameters), config_(config) {
    AddMoments("exp_avg");
    AddMoments("exp_avg_sq");
    AddStepCounter();
  }

 private:
  Scratch scratch() const override { return {.always = 2, .may_skip = 3}; }

  void Update(Set& set, const Tensors& gradients, double learning_rate,
              const at::Tensor& found_inf) override {
    Tensors& mean = set.moments[0];
    Tensors& square = set.moments[1];
    TakeBack take_back(found_inf, {&set.parameters, &mean, &square});
    at::_foreach_lerp_(mean, gradients, 1 - config_.beta1);
    at::_foreach_mul_(square, config_.beta2);
    at::_foreach_addcmul_(square, gradients, gradients, 1 - config_.beta2);

    Tensors deviation = at::_foreach_sqrt(square);
    at::_foreach_div_(deviation, Correction(config_.beta2).sqrt().to(at::kFloat));
    at::_foreach_add_(deviation, config_.eps);
    Tensors update = at::_foreach_div(mean, Correction(config_.beta1).to(at::kFloat));
    at::_foreach_div_(update, deviation);
    if (set.weight_decay != 0) at::_foreach_add_(update, set.parameters, set.weight_decay);
    if (set.adapt) {
      const at::Tensor weights = Norms(set.parameters);
      const at::Tensor updates = Norms(update);
      at::_foreach_mul_(update, TrustRatios(weights.div(updates), weights, updates));
    }
    at::_foreach_add_(set.parameters, update, -learning_rate);
    take_back.IfSkipped();
  }

  // 1 - beta^step: in double, for in float half of its digits are gone at the first steps.
  at::Tensor Correction(double beta) const {
    return at::pow(beta, step().to(at::kDouble)).neg().add(1.0);
  }

  const LambConfig config_;
};

class Lion final : public Optimizer {
 public:
  Lion(const LionConfig& config, const std::vector<OptimizedParameter>& parameters)
      : Optimizer(parameters), config_(config) {
    AddMoments("exp_avg");
  }

 private:
  Scratch scratch() const override { return {.always = 1, .may_skip = 2}; }

  void Update(Set& set, const Tensors& gradients, double learning_rate,
              const at::Tensor& found_inf) override {
    Tensors& mean = set.moments[0];
    TakeBack take_back(found_inf, {&set.parameters, &mean});
    Tensors update = at::_foreach_lerp(mean, gradients, 1 - config_.beta1);
    at::_foreach_sign_(update);
    if (set.weight_decay != 0)
      at::_foreach_mul_(set.parameters, 1 - learning_rate * set.weight_decay);
    at::_foreach_add_(set.parameters, update, -learning_rate);
    at::_foreach_lerp_(mean, gradients, 1 - config_.beta2);
    take_back.IfSkipped();
  }

  const LionConfig config_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeLars(const LarsConfig& config,
                                    const std::vector<OptimizedParameter>& parameters) {
  return std::make_unique<Lars>(config, parameters);
}

std::unique_ptr<Optimizer> MakeLamb(const LambConfig& config,
                                    const std::vector<OptimizedParameter>& parameters) {
  return std::make_unique<Lamb>(config, parameters);
}

std::unique_ptr<Optimizer> MakeLion(const LionConfig& config,
                                    const std::vector<OptimizedParameter>& parameters) {
  return std::make_unique<Lion>(config, parameters);
}

}  // namespace muster::worker
