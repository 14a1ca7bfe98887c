#include "worker/optim/optimizer.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace muster::worker {
namespace {

std::optional<at::Tensor> IfDefined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

class Sgd final : public Optimizer {
 public:
  Sgd(const SgdConfig& config, const std::vector<OptimizerTensor>& parameters)
      : Optimizer(parameters), config_(config) {
    if (config.momentum != 0) momentum_ = AddMoments("momentum");
  }

  void Step(const std::vector<at::Tensor>& gradients, double learning_rate,
            const at::Tensor& found_inf) override {
    // is_first_step would set momentum = gradient; with momentum 0 at the start, momentum * m +
    // gradient is the same.
    at::_fused_sgd_(
        parameters_, gradients, momentum_, config_.weight_decay, config_.momentum, learning_rate,
        /*dampening=*/0.0, config_.nesterov, /*maximize=*/false, /*is_first_step=*/false,
        /*grad_scale=*/std::nullopt, IfDefined(found_inf));
  }

 private:
  const SgdConfig config_;
  std::vector<at::Tensor> momentum_;
};

class AdamW final : public Optimizer {
 public:
  AdamW(const AdamWConfig& config, const std::vector<OptimizerTensor>& parameters)
      : Optimizer(parameters), config_(config) {
    exp_avg_ = AddMoments("exp_avg");
    exp_avg_sq_ = AddMoments("exp_avg_sq");
    step_ = at::zeros({}, parameters_.front().options());
    state_.push_back({"step", step_});
    // The kernel wants a counter for each parameter; they are always equal, so all are this one.
    steps_.assign(parameters_.size(), step_);
  }

  void Step(const std::vector<at::Tensor>& gradients, double learning_rate,
            const at::Tensor& found_inf) override {
    step_.add_(1);  // the kernel reads it, but does not advance it
    at::_fused_adamw_(parameters_, gradients, exp_avg_, exp_avg_sq_, /*max_exp_avg_sqs=*/{}, steps_,
                      learning_rate, config_.beta1, config_.beta2, config_.weight_decay,
                      config_.eps, /*amsgrad=*/false,
                      /*maximize=*/false, /*grad_scale=*/std::nullopt, IfDefined(found_inf));
    if (found_inf.defined()) step_.sub_(found_inf);
  }

 private:
  const AdamWConfig config_;
  std::vector<at::Tensor> exp_avg_, exp_avg_sq_, steps_;
  at::Tensor step_;
};

}  // namespace

Optimizer::Optimizer(const std::vector<OptimizerTensor>& parameters) {
  for (const OptimizerTensor& parameter : parameters) {
    names_.push_back(parameter.name);
    parameters_.push_back(parameter.tensor.detach());
  }
}

std::vector<at::Tensor> Optimizer::AddMoments(const std::string& prefix) {
  std::vector<at::Tensor> moments;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    moments.push_back(at::zeros_like(parameters_[i]));
    state_.push_back({prefix + "." + names_[i], moments.back()});
  }
  return moments;
}

std::unique_ptr<Optimizer> MakeSgd(const SgdConfig& config,
                                   const std::vector<OptimizerTensor>& parameters) {
  return std::make_unique<Sgd>(config, parameters);
}

std::unique_ptr<Optimizer> MakeAdamW(const AdamWConfig& config,
                                     const std::vector<OptimizerTensor>& parameters) {
  return std::make_unique<AdamW>(config, parameters);
}

}  // namespace muster::worker
