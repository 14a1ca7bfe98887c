// A moving average of the weights (Polyak and Juditsky 1992): what is validated, tested and best
// kept when a recipe asks for it.
//
// On the device, for the trained parameters and the floating-point buffers: batch norm's statistics
// are those of the weights that they came with, and averages of weights want averages of them.
// Frozen parameters do not change. The parameters' averages are the same on every rank, for the
// weights are; of the buffers' those of rank 0 count, as of the buffers themselves (evaluate.h).
// Not thread-safe. Throws what torch throws.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "worker/checkpoint/named_tensor.h"
#include "worker/models/base/model.h"

namespace muster::worker {

// Prefix of the averages' names in a checkpoint's model.safetensors.
inline constexpr char kEmaPrefix[] = "ema.";

struct EmaConfig {
  double decay = 0.9999;    // from 0 to below 1
  int64_t every_steps = 1;  // at least 1
  bool warmup = true;
};

// The decay of the update after step `step` (1-based), a pure function of it. With warm-up the
// smaller of the configured one and (1 + n) / (10 + n) in the n-th update, so that the first
// weights are soon forgotten (as in TensorFlow's and timm's averages).
double EmaDecay(const EmaConfig& config, int64_t step);

class Ema {
 public:
  // Of the parameters that require a gradient. `model` must outlive it.
  Ema(const EmaConfig& config, const Model& model);

  // Begins at the model's weights. For a fresh run; a resumed one loads state().
  void Start();

  // average = decay average + (1 - decay) weights, after every so many steps. `step` counts from 1.
  void Update(int64_t step);

  // "ema.<name>" of parameters and buffers. Load by writing into the tensors.
  const std::vector<ModelTensor>& state() const { return state_; }

 private:
  friend class EmaScope;
  void Swap();

  const EmaConfig config_;
  std::vector<at::Tensor> parameters_;  // the model's own
  std::vector<at::Tensor> weights_;     // their memory outside of a scope
  std::vector<at::Tensor> averages_;
  at::Tensor buffers_;          // the model's flat_buffers(); undefined without any
  at::Tensor buffer_averages_;  // likewise in one piece
  std::vector<ModelTensor> state_;
};

// What a checkpoint's model.safetensors holds: the model's state, and the averages (`ema` may be
// null). Older ones have no averages of buffers: those begin at the buffers themselves.
NamedTensors SavedTensors(const Model& model, const Ema* ema);

// Of the tensors of a checkpoint's model.safetensors: those of the model alone, each as its average
// where there is one, or with `averaged` false as it was trained.
NamedTensors ModelTensors(NamedTensors tensors, bool averaged);

// While it lives, the model computes with the averages; without an average (null), nothing
// happens. No copies of parameters: tensors change places. Buffers are copied, for parts of the
// model share their memory. No step and no save within.
class EmaScope {
 public:
  explicit EmaScope(Ema* ema);
  ~EmaScope();
  EmaScope(const EmaScope&) = delete;
  EmaScope& operator=(const EmaScope&) = delete;

 private:
  Ema* const ema_;
};

}  // namespace muster::worker
