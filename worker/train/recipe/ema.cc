#include "worker/train/recipe/ema.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace muster::worker {

double EmaDecay(const EmaConfig& config, int64_t step) {
  if (!config.warmup) return config.decay;
  const double updates = static_cast<double>(step / config.every_steps);
  return std::min(config.decay, (1.0 + updates) / (10.0 + updates));
}

Ema::Ema(const EmaConfig& config, const Model& model) : config_(config) {
  for (const ModelTensor& entry : model.parameters()) {
    if (!entry.tensor.requires_grad()) continue;
    parameters_.push_back(entry.tensor);
    weights_.push_back(entry.tensor.detach());
    averages_.push_back(weights_.back().clone());
    state_.push_back({absl::StrCat(kEmaPrefix, entry.name), averages_.back()});
  }
  buffers_ = model.flat_buffers();
  if (!buffers_.defined()) return;
  buffer_averages_ = buffers_.clone();
  int64_t offset = 0;  // in the order of Model::JoinBuffers
  for (const ModelTensor& entry : model.buffers()) {
    if (!entry.tensor.is_floating_point()) continue;
    const int64_t size = entry.tensor.numel();
    state_.push_back({absl::StrCat(kEmaPrefix, entry.name),
                      buffer_averages_.narrow(0, offset, size).view(entry.tensor.sizes())});
    offset += size;
  }
}

void Ema::Start() {
  at::NoGradGuard no_grad;
  at::_foreach_copy_(averages_, weights_);
  if (buffers_.defined()) buffer_averages_.copy_(buffers_);
}

void Ema::Update(int64_t step) {
  if (step % config_.every_steps != 0) return;
  at::NoGradGuard no_grad;
  const double share = 1.0 - EmaDecay(config_, step);
  at::_foreach_lerp_(averages_, weights_, share);
  if (buffers_.defined()) buffer_averages_.lerp_(buffers_, share);
}

void Ema::Swap() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor held = parameters_[i].detach();
    parameters_[i].set_data(averages_[i]);
    averages_[i] = held;
  }
  if (!buffers_.defined()) return;
  at::NoGradGuard no_grad;
  const at::Tensor held = buffers_.clone();
  buffers_.copy_(buffer_averages_);
  buffer_averages_.copy_(held);
}

NamedTensors SavedTensors(const Model& model, const Ema* ema) {
  NamedTensors tensors;
  for (const ModelTensor& entry : model.state())
    tensors.push_back({entry.name, entry.tensor.detach()});
  if (ema == nullptr) return tensors;
  std::set<std::string> buffers;
  for (const ModelTensor& entry : model.buffers()) buffers.insert(entry.name);
  for (const ModelTensor& entry : ema->state()) {
    const std::string own(absl::StripPrefix(entry.name, kEmaPrefix));
    tensors.push_back({entry.name, entry.tensor, buffers.contains(own) ? own : ""});
  }
  return tensors;
}

NamedTensors ModelTensors(NamedTensors tensors, bool averaged) {
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < tensors.size(); ++i) places[tensors[i].name] = i;
  NamedTensors out;
  for (const NamedTensor& entry : tensors) {
    if (absl::StartsWith(entry.name, kEmaPrefix) &&
        places.contains(std::string(absl::StripPrefix(entry.name, kEmaPrefix)))) {
      continue;
    }
    const auto average = places.find(absl::StrCat(kEmaPrefix, entry.name));
    const bool replaced = averaged && average != places.end();
    out.push_back({entry.name, replaced ? tensors[average->second].tensor : entry.tensor});
  }
  return out;
}

EmaScope::EmaScope(Ema* ema) : ema_(ema) {
  if (ema_ != nullptr) ema_->Swap();
}

EmaScope::~EmaScope() {
  if (ema_ != nullptr) ema_->Swap();
}

}  // namespace muster::worker
