// sgd, adam and adamw: one fused kernel for each set of parameters.
#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty.h>

#include <optional>

#include "worker/kernels/adam_kernel.h"
#include "worker/optim/optimizer.h"

namespace muster::worker {
namespace {

std::optional<at::Tensor> IfDefined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

// The set's learning rate where torch's fused kernels read it, on the device: so no kernel has it
// among its arguments, which a step captured as a graph would repeat for ever. A CPU's kernels read
// it in double precision, a GPU's know floats.
const at::Tensor& FilledRate(at::Tensor& rate, double learning_rate, const at::Tensor& beside) {
  if (!rate.defined()) {
    rate = at::empty({}, beside.options().dtype(beside.is_cpu() ? at::kDouble : at::kFloat));
  }
  return rate.fill_(learning_rate);
}

class Sgd final : public Optimizer {
 public:
  Sgd(const SgdConfig& config, const std::vector<OptimizedParameter>& parameters)
      : Optimizer(parameters), config_(config) {
    if (config.momentum != 0) AddMoments("momentum");
  }

 private:
  void Update(Set& set, const std::vector<at::Tensor>& gradients, double learning_rate,
              const at::Tensor& found_inf) override {
    const std::vector<at::Tensor> none;
    // is_first_step would set momentum = gradient; with momentum 0 at the start, momentum * m +
    // gradient is the same.
    at::_fused_sgd_(set.parameters, gradients, set.moments.empty() ? none : set.moments[0],
                    set.weight_decay, config_.momentum,
                    FilledRate(set.rate, learning_rate, gradients[0]),
                    /*dampening=*/0.0, config_.nesterov, /*maximize=*/false,
                    /*is_first_step=*/false, /*grad_scale=*/std::nullopt, IfDefined(found_inf));
  }

  const SgdConfig config_;
};

class Adam final : public Optimizer {
 public:
  Adam(const AdamConfig& config, bool decoupled, const std::vector<OptimizedParameter>& parameters)
      : Optimizer(parameters), config_(config), decoupled_(decoupled) {
    AddMoments("exp_avg");
    AddMoments("exp_avg_sq");
    AddStepCounter();
  }

 private:
  void Update(Set& set, const std::vector<at::Tensor>& gradients, double learning_rate,
              const at::Tensor& found_inf) override {
    if (at::get_num_threads() == 1 && AreRunsOfFloats(set, gradients)) {
      const bool skip = found_inf.defined() && found_inf.item<float>() == 1;
      if (!skip) UpdateRuns(set, gradients, learning_rate);
      return;
    }
    using Kernel =
        void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                 at::TensorList, const at::Tensor&, double, double, double, double, bool, bool,
                 const std::optional<at::Tensor>&, const std::optional<at::Tensor>&);
    const Kernel kernel =
        decoupled_ ? static_cast<Kernel>(at::_fused_adamw_) : static_cast<Kernel>(at::_fused_adam_);
    kernel(set.parameters, gradients, set.moments[0], set.moments[1], /*max_exp_avg_sqs=*/{},
           set.steps, FilledRate(set.rate, learning_rate, gradients[0]), config_.beta1,
           config_.beta2, set.weight_decay, config_.eps,
           /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/std::nullopt,
           IfDefined(found_inf));
  }

  // All tensors of a parameter in memory alike, without gaps, as floats of the CPU.
  static bool AreRunsOfFloats(const Set& set, const std::vector<at::Tensor>& gradients) {
    for (size_t i = 0; i < gradients.size(); ++i) {
      const at::Tensor& weight = set.parameters[i];
      if (!weight.is_cpu() || weight.scalar_type() != at::kFloat ||
          gradients[i].scalar_type() != at::kFloat || !weight.is_non_overlapping_and_dense()) {
        return false;
      }
      for (const at::Tensor& other : {gradients[i], set.moments[0][i], set.moments[1][i]}) {
        if (other.strides() != weight.strides()) return false;
      }
    }
    return true;
  }

  void UpdateRuns(const Set& set, const std::vector<at::Tensor>& gradients, double learning_rate) {
    const AdamStep now = {learning_rate,    config_.beta1, config_.beta2,        config_.eps,
                          set.weight_decay, decoupled_,    step().item<double>()};
    for (size_t i = 0; i < gradients.size(); ++i) {
      UpdateAdam(now, gradients[i].numel(), gradients[i].const_data_ptr<float>(),
                 set.parameters[i].mutable_data_ptr<float>(),
                 set.moments[0][i].mutable_data_ptr<float>(),
                 set.moments[1][i].mutable_data_ptr<float>());
    }
  }

  const AdamConfig config_;
  const bool decoupled_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeSgd(const SgdConfig& config,
                                   const std::vector<OptimizedParameter>& parameters) {
  return std::make_unique<Sgd>(config, parameters);
}

std::unique_ptr<Optimizer> MakeAdam(const AdamConfig& config,
                                    const std::vector<OptimizedParameter>& parameters) {
  return std::make_unique<Adam>(config, /*decoupled=*/false, parameters);
}

std::unique_ptr<Optimizer> MakeAdamW(const AdamConfig& config,
                                     const std::vector<OptimizedParameter>& parameters) {
  return std::make_unique<Adam>(config, /*decoupled=*/true, parameters);
}

}  // namespace muster::worker
