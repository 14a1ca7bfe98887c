#include "worker/dist/ddp.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <sched.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <chrono>
#include <torch/csrc/distributed/c10d/reducer.hpp>

namespace muster::worker {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// A wait longer than this is no longer worth a core.
constexpr std::chrono::milliseconds kLongestSpin{2};

// A Reducer whose wait for the other ranks begins by polling. Gloo hands a sum through several
// threads; a core that sleeps in between wakes up late each time, which on small models is a good
// part of the step. Yielding lets Gloo's threads run first.
class PollingReducer final : public c10d::Reducer {
 public:
  using c10d::Reducer::Reducer;

  // Returns when all buckets are reduced, or after kLongestSpin: the Reducer's own wait follows in
  // any case.
  void Poll() const {
    const SteadyTime start = std::chrono::steady_clock::now();
    for (const Bucket& bucket : buckets_) {
      if (bucket.future_work == nullptr) return;
      while (!bucket.future_work->completed()) {
        if (std::chrono::steady_clock::now() - start > kLongestSpin) return;
        ::sched_yield();
      }
    }
  }
};

class Ddp final : public GradientSync {
 public:
  Ddp(c10::intrusive_ptr<c10d::ProcessGroup> group, const std::vector<at::Tensor>& parameters,
      const GradientSyncOptions& options)
      : parameters_(parameters) {
    gradients_.resize(parameters.size());
    // The control numbers are the gradient of one more parameter. It stands first, in the first
    // bucket: its "gradient" is there before the backward pass begins.
    control_parameter_ =
        at::zeros({std::max<int64_t>(options.control_size, 1)}, parameters.front().options());
    control_parameter_.requires_grad_();
    std::vector<at::Tensor> reversed = {control_parameter_};
    reversed.insert(reversed.end(), parameters.rbegin(), parameters.rend());

    auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(
        reversed, {static_cast<size_t>(options.first_bucket_bytes),
                   static_cast<size_t>(options.bucket_bytes)}));
    const std::vector<bool> sparse(reversed.size(), false);
    // Twelve arguments: what torch 2.11 and 2.13 both have.
    reducer_ = std::make_unique<PollingReducer>(
        reversed, std::move(buckets), std::move(group), sparse, options.bucket_bytes,
        /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true,
        /*param_names=*/std::unordered_map<size_t, std::string>(), options.first_bucket_bytes,
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
        /*bucket_bytes_cap_list=*/std::vector<int64_t>());
    // The first parameter is the last to get its gradient: from then on a backward pass only waits
    // for the others.
    const bool poll = parameters_.front().device().is_cpu();
    parameters_.front().register_hook([this, poll](const at::Tensor&) {
      last_gradient_ = std::chrono::steady_clock::now();
      if (!exchanging_) return;
      // Runs at the end of this backward pass, before the Reducer's own callback: that is queued
      // after the last gradient.
      if (poll)
        torch::autograd::Engine::get_default_engine().queue_callback([this] { reducer_->Poll(); });
    });
  }

  // Dropped, not zeroed: the Reducer then writes gradient / world_size into the bucket in one pass.
  void BeginStep() override {
    control_parameter_.mutable_grad().reset();
    for (size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i].mutable_grad().reset();
      gradients_[i].reset();
    }
    reducer_->prepare_for_forward();
  }

  // A Reducer that was not prepared for it lets a backward pass go by.
  void Accumulate(const at::Tensor& loss, const at::Tensor& loss_weight) override {
    exchanging_ = false;
    torch::autograd::backward({loss}, {loss_weight});
  }

  void Backward(const at::Tensor& loss, const at::Tensor& loss_weight,
                const at::Tensor& control) override {
    exchanging_ = true;
    reducer_->prepare_for_backward({});
    last_gradient_ = std::chrono::steady_clock::now();
    torch::autograd::backward({loss, control_parameter_}, {loss_weight, control});
    last_wait_ = std::chrono::steady_clock::now() - last_gradient_;
    for (size_t i = 0; i < parameters_.size(); ++i) gradients_[i] = parameters_[i].grad();
  }

  const at::Tensor& control() const override { return control_parameter_.grad(); }
  const std::vector<at::Tensor>& gradients() const override { return gradients_; }
  absl::Duration last_wait() const override { return absl::FromChrono(last_wait_); }

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> gradients_;
  at::Tensor control_parameter_;
  std::unique_ptr<PollingReducer> reducer_;
  bool exchanging_ = false;  // does the backward pass that runs now end with an exchange?
  SteadyTime last_gradient_;
  std::chrono::steady_clock::duration last_wait_{};
};

}  // namespace

std::unique_ptr<GradientSync> MakeDdp(c10d::ProcessGroup& group,
                                      const std::vector<at::Tensor>& parameters,
                                      const GradientSyncOptions& options) {
  return std::make_unique<Ddp>(
      c10::intrusive_ptr<c10d::ProcessGroup>::unsafe_reclaim_from_nonowning(&group), parameters,
      options);
}

}  // namespace muster::worker
