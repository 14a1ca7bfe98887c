#include "worker/models/layers/recompute.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>
#include <utility>

namespace muster::worker {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The generators of the CPU and of a device, as they stand.
class GeneratorStates {
 public:
  explicit GeneratorStates(at::Device device) {
    generators_.push_back(at::detail::getDefaultCPUGenerator());
    if (!device.is_cpu()) generators_.push_back(at::globalContext().defaultGenerator(device));
    for (at::Generator& generator : generators_) {
      std::lock_guard<std::mutex> lock(generator.mutex());
      states_.push_back(generator.get_state());
    }
  }
  void Restore() {
    for (size_t i = 0; i < generators_.size(); ++i) {
      std::lock_guard<std::mutex> lock(generators_[i].mutex());
      generators_[i].set_state(states_[i]);
    }
  }

 private:
  std::vector<at::Generator> generators_;
  std::vector<at::Tensor> states_;
};

// What autocast does on this thread, for one kind of device.
struct AutocastState {
  explicit AutocastState(c10::DeviceType type)
      : device_type(type),
        enabled(at::autocast::is_autocast_enabled(type)),
        dtype(at::autocast::get_autocast_dtype(type)) {}
  void Restore() const {
    at::autocast::set_autocast_enabled(device_type, enabled);
    at::autocast::set_autocast_dtype(device_type, dtype);
  }

  c10::DeviceType device_type;
  bool enabled;
  c10::ScalarType dtype;
};

// The autocast of the first pass, for the second. The cast weights of one block help no other, so
// its cache ends with it.
class AutocastAgain {
 public:
  explicit AutocastAgain(const AutocastState& first) : now_(first.device_type) {
    first.Restore();
    at::autocast::increment_nesting();
  }
  ~AutocastAgain() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    now_.Restore();
  }
  AutocastAgain(const AutocastAgain&) = delete;
  AutocastAgain& operator=(const AutocastAgain&) = delete;

 private:
  const AutocastState now_;
};

// A weight that is cast while nothing is recorded must not be found in autocast's cache by an
// operator that records.
class NoAutocastCache {
 public:
  NoAutocastCache() : enabled_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~NoAutocastCache() { at::autocast::set_autocast_cache_enabled(enabled_); }
  NoAutocastCache(const NoAutocastCache&) = delete;
  NoAutocastCache& operator=(const NoAutocastCache&) = delete;

 private:
  const bool enabled_;
};

// What the second pass needs, besides the inputs.
struct Call final : torch::CustomClassHolder {
  Call(const BlockFunction& own, const std::vector<at::Tensor>& own_parameters, at::Device device)
      : block(own), parameters(own_parameters), autocast(device.type()), generators(device) {}

  const BlockFunction block;
  const std::vector<at::Tensor> parameters;
  const AutocastState autocast;
  GeneratorStates generators;
};

constexpr char kCall[] = "call";

// The parameters are inputs of the function, and its backward pass hands their gradients back. The
// other way, a backward pass within the backward pass, would lose all of them in silence when no
// input needs a gradient.
class RecomputedBlock final : public torch::autograd::Function<RecomputedBlock> {
 public:
  // `tensors`: the inputs, then the parameters. Runs without recording.
  static at::Tensor forward(AutogradContext* context, const c10::intrusive_ptr<Call>& call,
                            at::TensorList tensors) {
    const variable_list inputs(tensors.begin(), tensors.end() - call->parameters.size());
    context->save_for_backward(inputs);
    context->saved_data[kCall] = c10::IValue::make_capsule(
        c10::static_intrusive_pointer_cast<torch::CustomClassHolder>(call));
    const NoAutocastCache no_cache;
    return call->block(inputs, Pass::kFirst);
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const auto call =
        c10::static_intrusive_pointer_cast<Call>(context->saved_data[kCall].toCapsule());
    variable_list inputs, wanted;
    std::vector<size_t> places;  // of `wanted` among the tensors of forward
    const auto want = [&](const at::Tensor& tensor, size_t place) {
      if (!tensor.requires_grad()) return;
      wanted.push_back(tensor);
      places.push_back(place);
    };
    for (const at::Tensor& saved : context->get_saved_variables()) {
      inputs.push_back(saved.detach());
      inputs.back().set_requires_grad(saved.requires_grad());
      want(inputs.back(), inputs.size() - 1);
    }
    for (size_t i = 0; i < call->parameters.size(); ++i)
      want(call->parameters[i], inputs.size() + i);

    const at::Tensor output = RunAgain(*call, inputs);
    const variable_list found =
        torch::autograd::grad({output}, wanted, {output_gradients.front()},
                              /*retain_graph=*/std::nullopt, /*create_graph=*/false,
                              /*allow_unused=*/true);
    // One more in front: the call is no tensor.
    variable_list gradients(1 + inputs.size() + call->parameters.size());
    for (size_t i = 0; i < places.size(); ++i) gradients[1 + places[i]] = found[i];
    return gradients;
  }

 private:
  static at::Tensor RunAgain(Call& call, const variable_list& inputs) {
    GeneratorStates newer(inputs.front().device());
    call.generators.Restore();
    at::Tensor output;
    {
      const at::AutoGradMode record(true);
      const AutocastAgain autocast(call.autocast);
      output = call.block(inputs, Pass::kAgain);
    }
    newer.Restore();
    return output;
  }
};

bool AnyNeedsGradient(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.requires_grad()) return true;
  }
  return false;
}

}  // namespace

at::Tensor Recompute(const BlockFunction& block, const std::vector<at::Tensor>& parameters,
                     const std::vector<at::Tensor>& inputs) {
  const bool differentiated =
      at::GradMode::is_enabled() && (AnyNeedsGradient(inputs) || AnyNeedsGradient(parameters));
  if (!differentiated) return block(inputs, Pass::kFirst);
  std::vector<at::Tensor> tensors = inputs;
  tensors.insert(tensors.end(), parameters.begin(), parameters.end());
  return RecomputedBlock::apply(
      c10::make_intrusive<Call>(block, parameters, inputs.front().device()),
      at::TensorList(tensors));
}

}  // namespace muster::worker
