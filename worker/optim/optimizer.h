// SGD and AdamW by torch's fused kernels: one call for all parameters.
//
// Used by the training step. The state is plain tensors by name, so that a checkpoint holds all of
// it and a resume is bit-equal. Not thread-safe. Throws c10::Error as the kernels do.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster::worker {

struct OptimizerTensor {
  std::string name;
  at::Tensor tensor;
};

struct SgdConfig {
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;  // added to the gradient
};

// Loshchilov and Hutter 2019.
struct AdamWConfig {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;  // decoupled
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Changes the parameters in place. `gradients` in the order of the parameters, of their shapes;
  // not changed. `found_inf` (fp32, 0-dim, may be undefined): when it holds 1, parameters and state
  // stay as they are; read on the device.
  virtual void Step(const std::vector<at::Tensor>& gradients, double learning_rate,
                    const at::Tensor& found_inf) = 0;

  // Everything that a resume needs, e.g. "exp_avg.<parameter name>" and "step". Load by writing
  // into the tensors.
  const std::vector<OptimizerTensor>& state() const { return state_; }

 protected:
  // The parameters as leaves; `names` in the same order.
  explicit Optimizer(const std::vector<OptimizerTensor>& parameters);

  // A zero tensor like each parameter, registered as "<prefix>.<parameter name>".
  std::vector<at::Tensor> AddMoments(const std::string& prefix);

  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;  // detached: same memory, unseen by autograd
  std::vector<OptimizerTensor> state_;
};

std::unique_ptr<Optimizer> MakeSgd(const SgdConfig& config,
                                   const std::vector<OptimizerTensor>& parameters);
std::unique_ptr<Optimizer> MakeAdamW(const AdamWConfig& config,
                                     const std::vector<OptimizerTensor>& parameters);

}  // namespace muster::worker
