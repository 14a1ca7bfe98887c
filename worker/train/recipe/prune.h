// Magnitude pruning: the smallest weights become zero, step by step, and stay so (Zhu and Gupta
// 2017, "To prune, or not to prune").
//
// Used by the loop after each step. The masks follow from the weights alone, which are the same on
// every rank, so all ranks have the same masks without an exchange; they are kept in the
// checkpoint. No host reads. Not thread-safe. Throws what torch throws.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/models/base/model.h"
#include "worker/train/recipe/ema.h"

namespace muster::worker {

// Prefix of the masks' names in a checkpoint's optimizer.safetensors.
inline constexpr char kMaskPrefix[] = "mask.";

struct PruneConfig {
  double sparsity = 0;               // in the end; above 0 to below 1
  int64_t begin_step = 0;            // steps that are done: 0 is before the first
  int64_t end_step = 0;              // at least begin_step
  int64_t every_steps = 1;           // from begin_step on, and once more after end_step
  std::string pattern = "*.weight";  // MatchesPattern, of parameters with two axes at least
  bool global = false;               // the smallest of all of them together, not of each
};

// How much is zero after `step` steps, by the cubic schedule. Pure.
double SparsityAfter(const PruneConfig& config, int64_t step);
// Whether the masks grow after `step` steps. Pure.
bool PrunesAfter(const PruneConfig& config, int64_t step);
// How many of `count` weights are zero at `sparsity`: rounded, halves to even, as
// torch.nn.utils.prune does. Pure.
int64_t PrunedOf(double sparsity, int64_t count);

class Pruner {
 public:
  // Of the parameters that match and require a gradient; nothing is pruned yet. `model` and `ema`,
  // which may be null, must outlive it. INVALID_ARGUMENT when no parameter matches.
  static absl::StatusOr<std::unique_ptr<Pruner>> Create(const PruneConfig& config,
                                                        const Model& model, const Ema* ema);

  // After step `step` and the update of the averages; 0: before the first one. Grows the masks when
  // it is time, and puts every pruned weight, and its average, back to zero.
  void AfterStep(int64_t step);

  // The masks, bool, true where a weight lives: "mask.<parameter name>". Load by writing into them.
  const std::vector<ModelTensor>& state() const { return masks_; }

  // What AfterStep holds for a while, all at once, when it grows the masks: the sizes of its
  // blocks.
  std::vector<int64_t> GrowingBytes() const;

  // How much of the weights that may be pruned is zero now. Reads them: waits for a device.
  double Sparsity() const;

 private:
  Pruner(const PruneConfig& config, const Model& model, const Ema* ema);
  void GrowMasks(double sparsity);
  at::Tensor Scores(size_t i) const;

  const PruneConfig config_;
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> averages_;  // of those, or empty
  std::vector<ModelTensor> masks_;
};

}  // namespace muster::worker
