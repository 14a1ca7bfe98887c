// The gang of one: nothing to exchange, so nothing of c10d is paid for.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include "worker/dist/collectives.h"

namespace muster::worker {
namespace {

class LocalGradientSync final : public GradientSync {
 public:
  explicit LocalGradientSync(const std::vector<at::Tensor>& parameters) : parameters_(parameters) {
    gradients_.resize(parameters.size());
  }

  void BeginStep() override {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i].mutable_grad().reset();
      gradients_[i].reset();
    }
  }

  void Accumulate(const at::Tensor& loss, const at::Tensor& loss_weight) override {
    torch::autograd::backward({loss}, {loss_weight});
  }

  void Backward(const at::Tensor& loss, const at::Tensor& loss_weight,
                const at::Tensor& control) override {
    torch::autograd::backward({loss}, {loss_weight});
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      at::Tensor& gradient = parameters_[i].mutable_grad();
      // The loss does not depend on it: zeros, as a gang of several makes of it (ddp.cc).
      if (!gradient.defined()) gradient = at::zeros_like(parameters_[i]);
      gradients_[i] = gradient;
    }
    control_ = control;
  }

  void AwaitMean() override {}

  const at::Tensor& control() const override { return control_; }
  const std::vector<at::Tensor>& gradients() const override { return gradients_; }
  absl::Duration exchange_in_backward() const override { return absl::ZeroDuration(); }

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> gradients_;
  at::Tensor control_;
};

class LocalCollectives final : public Collectives {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  std::string transport() const override { return "local"; }
  void AllReduceSum(at::Tensor&) override {}
  void Broadcast(at::Tensor&, int) override {}
  void BroadcastText(std::string&, int) override {}
  void Barrier() override {}
  std::unique_ptr<GradientSync> MakeGradientSync(const std::vector<at::Tensor>& parameters,
                                                 const GradientSyncOptions&) override {
    return std::make_unique<LocalGradientSync>(parameters);
  }
  int64_t BucketBytes(const std::vector<at::Tensor>&) const override { return 0; }
};

}  // namespace

std::unique_ptr<Collectives> MakeLocalCollectives() { return std::make_unique<LocalCollectives>(); }

}  // namespace muster::worker
