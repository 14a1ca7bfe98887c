#include "worker/dist/strategy/ddp.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/ScopeExit.h>
#include <sched.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <chrono>

#include "worker/dist/process_group.h"
#include "worker/dist/strategy/gradient_norm.h"

namespace muster::worker {
namespace {

using Clock = std::chrono::steady_clock;
using Tensors = std::vector<at::Tensor>;
// A shared_ptr or an intrusive_ptr, as the version of torch has it.
using NodePtr = decltype(torch::autograd::impl::grad_accumulator(std::declval<at::Tensor>()));

// A wait longer than this is no longer worth a core.
constexpr std::chrono::milliseconds kLongestSpin{2};

// Gradients that are exchanged in one piece. Member 0 of the first bucket may be the control
// numbers, which have no parameter.
struct Bucket {
  std::vector<size_t> parameters;
  bool carries_control = false;
  at::Tensor flat;  // what is exchanged, and
  Tensors views;    // the members' places in it; undefined and empty where it happens in place
  size_t missing = 0;
  c10::intrusive_ptr<c10d::Work> work;
};

c10::ScalarType TravelType(Compression compression, c10::ScalarType type) {
  if (compression == Compression::kFp16) return at::kHalf;
  if (compression == Compression::kBf16) return at::kBFloat16;
  return type;
}

// Gloo hands a sum through several threads; a core that sleeps in between wakes up late each time,
// which on small models is a good part of the step. Yielding lets Gloo's threads run first.
void Poll(c10d::Work& work) {
  const Clock::time_point start = Clock::now();
  while (!work.isCompleted() && Clock::now() - start < kLongestSpin) ::sched_yield();
}

// Gradients lie where they are, and are exchanged there.
bool ExchangesInPlace(Compression compression, bool in_place) {
  return in_place && compression == Compression::kNone;
}

class Ddp final : public Strategy {
 public:
  Ddp(const ProcessGroup& group, const Tensors& parameters, const DdpOptions& options)
      : group_(group), parameters_(parameters), options_(options) {
    gradients_.resize(parameters.size());
    bucket_of_.resize(parameters.size());
    arrivals_.resize(parameters.size());
  }

  ~Ddp() override {
    for (const auto& [accumulator, key] : hooks_) accumulator->del_post_hook(key);
  }

  // Dropped, not zeroed: autograd then hands over its own tensor instead of adding to ours.
  void BeginStep() override {
    if (number_ != group_.number) Join();
    exchanging_ = false;  // of a step that failed
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
    BeginExchange(control);
    torch::autograd::backward({loss}, {loss_weight});
    exchanging_ = false;
    // Those whose gradients did not all come: zeros stand for what is missing.
    while (next_ < buckets_.size()) Send(buckets_[next_++]);
    if (learning_) expected_ = arrivals_;
    learning_ = false;
  }

  void Await() override {
    for (Bucket& bucket : buckets_) Receive(bucket);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      at::Tensor& gradient = parameters_[i].mutable_grad();
      // Alone, with a loss that does not depend on it: as a gang of several makes of it.
      if (!gradient.defined()) gradient = at::zeros_like(parameters_[i]).detach();
      gradients_[i] = gradient;
    }
  }

  const at::Tensor& control() const override { return control_; }
  const Tensors& gradients() const override { return gradients_; }

  // All ranks see the same gradients.
  at::Tensor Scale(const at::Tensor& factor) override {
    at::Tensor overflow = at::zeros({1}, factor.options());
    at::_amp_foreach_non_finite_check_and_unscale_(gradients_, overflow, factor);
    return overflow;
  }
  at::Tensor Norm() const override { return GradientNorm(gradients_); }

  // All ranks do the same to the same weights.
  void Update(absl::FunctionRef<void(const Tensors&)> step) override { step(gradients_); }

  absl::Duration exchange_in_backward() const override { return absl::FromChrono(exchange_time_); }
  int64_t buffer_bytes() const override {
    if (group_.IsAlone()) return 0;
    return DdpBufferBytes(parameters_, options_.compression, group_.in_place);
  }

  bool Saves(const at::Tensor&) const override {
    return group_.IsAlone() || group_.backend->getRank() == 0;
  }

  // All ranks have the same bits, whatever each might have read.
  void Restored(const Tensors& state) override {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& tensor : state) group_.Broadcast(tensor, /*root=*/0);
  }

 private:
  bool InPlace() const { return ExchangesInPlace(options_.compression, group_.in_place); }

  // Another generation may have other ranks, and another way between them.
  void Join() {
    const bool alone = group_.IsAlone();  // throws between generations
    number_ = group_.number;
    buckets_.clear();
    learning_ = options_.static_graph;
    expected_.assign(parameters_.size(), 1);
    if (alone) return;
    MakeBuckets();
    for (size_t i = hooks_.size(); i < parameters_.size(); ++i) AddHook(i);
  }

  // In the order in which gradients usually come: that of the last layer first.
  void MakeBuckets() {
    const StrategyOptions& limits = options_.buckets;
    buckets_.emplace_back().carries_control = true;
    // The control numbers are floats, and lose nothing to compression.
    const bool alone = options_.compression != Compression::kNone ||
                       parameters_.back().scalar_type() != at::kFloat;
    if (alone) buckets_.emplace_back();
    int64_t limit = limits.first_bucket_bytes;
    int64_t bytes = 0;
    for (size_t i = parameters_.size(); i-- > 0;) {
      const at::Tensor& parameter = parameters_[i];
      const std::vector<size_t>& members = buckets_.back().parameters;
      if (!members.empty() && (bytes >= limit || parameters_[members.front()].scalar_type() !=
                                                     parameter.scalar_type())) {
        buckets_.emplace_back();
        limit = limits.bucket_bytes;
        bytes = 0;
      }
      buckets_.back().parameters.push_back(i);
      bucket_of_[i] = buckets_.size() - 1;
      bytes += static_cast<int64_t>(parameter.nbytes());
    }
    if (InPlace()) return;
    for (Bucket& bucket : buckets_) MakeFlat(bucket);
  }

  void MakeFlat(Bucket& bucket) {
    int64_t total = bucket.carries_control ? ControlSize() : 0;
    for (const size_t i : bucket.parameters) total += parameters_[i].numel();
    at::TensorOptions options = parameters_.front().options().dtype(at::kFloat);
    if (!bucket.parameters.empty()) {
      const at::Tensor& first = parameters_[bucket.parameters.front()];
      options = options.dtype(TravelType(options_.compression, first.scalar_type()));
    }
    bucket.flat = at::empty({total}, options.requires_grad(false));
    int64_t offset = 0;
    if (bucket.carries_control) {
      bucket.views.push_back(bucket.flat.narrow(0, 0, ControlSize()));
      offset = ControlSize();
    }
    for (const size_t i : bucket.parameters) {
      const at::Tensor& parameter = parameters_[i];
      const bool dense = parameter.is_non_overlapping_and_dense();
      bucket.views.push_back(
          dense ? bucket.flat.as_strided(parameter.sizes(), parameter.strides(), offset)
                : bucket.flat.narrow(0, offset, parameter.numel()).view(parameter.sizes()));
      offset += parameter.numel();
    }
  }

  int64_t ControlSize() const { return std::max<int64_t>(options_.buckets.control_size, 1); }

  void AddHook(size_t i) {
    const NodePtr accumulator = torch::autograd::impl::grad_accumulator(parameters_[i]);
    const uintptr_t key =
        accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
            [this, i](const Tensors& outputs, const Tensors& inputs) {
              if (exchanging_) GradientCame(i, inputs.front());
              return outputs;
            }));
    hooks_.emplace_back(accumulator, key);
  }

  void BeginExchange(const at::Tensor& control) {
    control_ = control;
    exchange_time_ = {};
    next_ = 0;
    std::fill(arrivals_.begin(), arrivals_.end(), 0);
    for (Bucket& bucket : buckets_) {
      bucket.missing = 0;
      for (const size_t i : bucket.parameters) bucket.missing += expected_[i];
    }
    exchanging_ = !buckets_.empty();
    SendReady();
  }

  // `handed_over` is what autograd made the gradient of, which it may still hold.
  void GradientCame(size_t i, const at::Tensor& handed_over) {
    arrivals_[i] += 1;
    if (learning_) return;
    handed_over_ = &handed_over;
    const auto forget = c10::make_scope_exit([this] { handed_over_ = nullptr; });
    TORCH_CHECK(arrivals_[i] <= expected_[i], "parameter ", i,
                " got its gradient more often than once in one backward pass: set "
                "train.parallel.static_graph");
    buckets_[bucket_of_[i]].missing -= 1;
    SendReady();
  }

  // In the order of the buckets, which is that of all ranks, whatever the order of the gradients.
  void SendReady() {
    if (learning_) return;
    while (next_ < buckets_.size() && buckets_[next_].missing == 0) Send(buckets_[next_++]);
  }

  void Send(Bucket& bucket) {
    const at::NoGradGuard no_grad;
    Tensors members;
    if (bucket.carries_control) members.push_back(control_);
    for (const size_t i : bucket.parameters) {
      at::Tensor& gradient = parameters_[i].mutable_grad();
      if (!gradient.defined()) gradient = at::zeros_like(parameters_[i]).detach();
      // Autograd may hand over a view of a gradient that others have, too: of another parameter, or
      // of a node that is still to run.
      if (InPlace() && IsShared(gradient)) gradient = gradient.clone();
      members.push_back(gradient);
    }
    if (InPlace()) {
      c10d::AllreduceCoalescedOptions mean;
      mean.reduceOp = c10d::ReduceOp::AVG;
      const Clock::time_point start = Clock::now();
      bucket.work = group_.backend->allreduce_coalesced(members, mean);
      exchange_time_ += Clock::now() - start;
      return;
    }
    c10d::AllreduceOptions sum;
    if (group_.averages && bucket.flat.scalar_type() != at::kHalf) {
      // On a device a launch for all of them costs what one of them would. Numbers in fp16 are
      // divided before they travel: they would overflow.
      at::_foreach_copy_(bucket.views, members);
      sum.reduceOp = c10d::ReduceOp::AVG;
    } else {
      // One pass: the division by the number of ranks, and the change of type if there is one.
      const at::Tensor share = at::native::wrapped_scalar_tensor(1.0 / group_.backend->getSize());
      for (size_t i = 0; i < members.size(); ++i) at::mul_out(bucket.views[i], members[i], share);
    }
    Tensors flat = {bucket.flat};
    bucket.work = group_.backend->allreduce(flat, sum);
  }

  // Whether other tensors than the one that autograd holds meanwhile lie in the gradient's memory.
  bool IsShared(const at::Tensor& gradient) const {
    const bool held = handed_over_ != nullptr && handed_over_->defined() &&
                      handed_over_->storage().is_alias_of(gradient.storage());
    return gradient.storage().use_count() > (held ? 2 : 1);
  }

  void Receive(Bucket& bucket) {
    if (parameters_.front().is_cpu()) Poll(*bucket.work);
    bucket.work->wait();
    bucket.work.reset();
    if (InPlace()) return;
    const at::NoGradGuard no_grad;
    size_t view = 0;
    if (bucket.carries_control) control_ = bucket.views[view++];
    Tensors own, means;  // of another type than that in which they travelled
    for (const size_t i : bucket.parameters) {
      const at::Tensor& mean = bucket.views[view++];
      at::Tensor& gradient = parameters_[i].mutable_grad();
      if (mean.scalar_type() == gradient.scalar_type()) {
        gradient = mean;
      } else {
        own.push_back(gradient);
        means.push_back(mean);
      }
    }
    if (!own.empty()) at::_foreach_copy_(own, means);
  }

  const ProcessGroup& group_;
  Tensors parameters_;
  Tensors gradients_;
  at::Tensor control_;
  const DdpOptions options_;
  int64_t number_ = -1;  // of the group that the following is for
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;  // of each parameter
  std::vector<std::pair<NodePtr, uintptr_t>> hooks_;

  // Of the backward pass that runs.
  bool exchanging_ = false;
  size_t next_ = 0;                          // the first bucket that has not been sent
  std::vector<size_t> arrivals_;             // how often each parameter has got a gradient
  const at::Tensor* handed_over_ = nullptr;  // while a hook runs
  Clock::duration exchange_time_{};

  // With a static graph the first step counts how often each parameter gets its gradient, and sends
  // everything at its end.
  bool learning_ = false;
  std::vector<size_t> expected_;
};

}  // namespace

std::unique_ptr<Strategy> MakeDdp(const ProcessGroup& group, const Tensors& parameters,
                                  const DdpOptions& options) {
  return std::make_unique<Ddp>(group, parameters, options);
}

int64_t DdpBufferBytes(const Tensors& parameters, Compression compression, bool in_place) {
  if (ExchangesInPlace(compression, in_place)) return 0;
  int64_t bytes = 0;
  for (const at::Tensor& parameter : parameters) {
    const c10::ScalarType type = TravelType(compression, parameter.scalar_type());
    bytes += parameter.numel() * static_cast<int64_t>(c10::elementSize(type));
  }
  return bytes;
}

}  // namespace muster::worker
