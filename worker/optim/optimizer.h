// The optimizers: fused kernels where torch has them (sgd, adam, adamw), else foreach calls over
// all parameters at once (lars, lamb, lion).
//
// Used by the training step. The state is plain tensors by name, so that a checkpoint holds all of
// it and a resume is bit-equal. Not thread-safe. Throws c10::Error as the kernels do.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace muster::worker {

struct OptimizerTensor {
  std::string name;
  at::Tensor tensor;
};

// A parameter to train. Those of the same last three settings are updated together, in one call.
struct OptimizedParameter {
  std::string name;
  at::Tensor tensor;
  double lr_scale = 1;      // of the learning rate that Step is given
  double weight_decay = 0;  // in the optimizer's own way, see below
  bool adapt = true;        // lars, lamb: scale the step by the norm of the weights
};

// g += weight_decay w;  m = momentum m + g;  w -= lr m  (nesterov: lr (g + momentum m)).
struct SgdConfig {
  double momentum = 0.9;
  bool nesterov = false;
};

// Kingma and Ba 2015, with g += weight_decay w. AdamW (Loshchilov and Hutter 2019) instead shrinks
// the weights by lr weight_decay w.
struct AdamConfig {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
};

// You et al. 2017, "Large Batch Training of Convolutional Networks", algorithm 1:
//   rate = trust_coefficient |w| / (|g| + weight_decay |w|)
//   m = momentum m + lr rate (g + weight_decay w);  w -= m
// The rate is 1 where a norm is zero, else a bias that starts at zero would stay there.
struct LarsConfig {
  double momentum = 0.9;
  double trust_coefficient = 0.001;
};

// You et al. 2020, "Large Batch Optimization for Deep Learning", algorithm 2, with the identity as
// its function of the norm: u is adam's step plus weight_decay w, and w -= lr (|w| / |u|) u. The
// ratio is 1 where a norm is zero.
struct LambConfig {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
};

// Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2:
//   w -= lr (sign(beta1 m + (1 - beta1) g) + weight_decay w);  m = beta2 m + (1 - beta2) g
struct LionConfig {
  double beta1 = 0.9;
  double beta2 = 0.99;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Changes the parameters in place. `gradients` in the order of the parameters, of their shapes;
  // not changed. `found_inf` (fp32, 0-dim, may be undefined): when it holds 1, parameters and state
  // stay as they are; read on the device.
  void Step(const std::vector<at::Tensor>& gradients, double learning_rate,
            const at::Tensor& found_inf);

  // Bytes of each tensor that Step takes for a while; `may_skip`: when it is given a `found_inf`.
  std::vector<int64_t> StepBytes(bool may_skip) const;

  // Everything that a resume needs, e.g. "exp_avg.<parameter name>" and "step". Load by writing
  // into the tensors.
  const std::vector<OptimizerTensor>& state() const { return state_; }

 protected:
  // Parameters of the same settings, with their share of the state.
  struct Set {
    double lr_scale = 1;
    double weight_decay = 0;
    bool adapt = true;
    std::vector<size_t> members;  // of all parameters
    std::vector<at::Tensor> parameters;
    std::vector<std::vector<at::Tensor>> moments;  // in the order of AddMoments
    std::vector<at::Tensor> steps;                 // after AddStepCounter: one for each parameter
    at::Tensor rate;                               // of kernels that read it from a tensor
  };

  // At least one parameter.
  explicit Optimizer(const std::vector<OptimizedParameter>& parameters);

  // A zero tensor like each parameter, registered as "<prefix>.<parameter name>".
  void AddMoments(const std::string& prefix);
  // A count of the steps that were not skipped, registered as "step".
  void AddStepCounter();

  // What Update takes of tensors like each parameter of its set, at the same time.
  struct Scratch {
    int64_t always = 0;
    int64_t may_skip = 0;  // besides, when it is given a `found_inf`
  };
  virtual Scratch scratch() const { return {}; }

  // Step for one set; `learning_rate` is its own. The step counter counts this step already.
  virtual void Update(Set& set, const std::vector<at::Tensor>& gradients, double learning_rate,
                      const at::Tensor& found_inf) = 0;

  const at::Tensor& step() const { return step_; }

 private:
  void CountStep();

  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;  // detached: same memory, unseen by autograd
  std::vector<Set> sets_;
  std::vector<OptimizerTensor> state_;
  at::Tensor step_;
};

std::unique_ptr<Optimizer> MakeSgd(const SgdConfig& config,
                                   const std::vector<OptimizedParameter>& parameters);
std::unique_ptr<Optimizer> MakeAdam(const AdamConfig& config,
                                    const std::vector<OptimizedParameter>& parameters);
std::unique_ptr<Optimizer> MakeAdamW(const AdamConfig& config,
                                     const std::vector<OptimizedParameter>& parameters);
std::unique_ptr<Optimizer> MakeLars(const LarsConfig& config,
                                    const std::vector<OptimizedParameter>& parameters);
std::unique_ptr<Optimizer> MakeLamb(const LambConfig& config,
                                    const std::vector<OptimizedParameter>& parameters);
std::unique_ptr<Optimizer> MakeLion(const LionConfig& config,
                                    const std::vector<OptimizedParameter>& parameters);

}  // namespace muster::worker
