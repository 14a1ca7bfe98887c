#include "worker/train/objective/reconstruction.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include "worker/models/layers/patches.h"

namespace muster::worker {
namespace {

constexpr double kVarianceEpsilon = 1e-6;

// Of each patch by itself, [B, P, 1].
struct PixelStatistics {
  at::Tensor mean;
  at::Tensor deviation;
};

PixelStatistics StatisticsOf(const at::Tensor& patches) {
  return {patches.mean(-1, /*keepdim=*/true),
          patches.var(at::OptionalIntArrayRef({-1}), /*unbiased=*/true, /*keepdim=*/true)
              .add(kVarianceEpsilon)
              .sqrt()};
}

class Reconstruction final : public Objective {
 public:
  explicit Reconstruction(const ReconstructionConfig& config) : config_(config) {}

  at::Tensor TrainingLoss(const ModelOutput& output, const Batch& batch) const override {
    return PatchLosses(output, batch).sum() / output.mask.sum();
  }

  at::Tensor EvaluationLoss(const ModelOutput& output, const Batch& batch) const override {
    return (PatchLosses(output, batch).sum(1) / output.mask.sum(1)).sum();
  }

  at::Tensor Correct(const ModelOutput&, const Batch&) const override { return {}; }

  bool accuracy_leads() const override { return false; }
  bool has_accuracy() const override { return false; }

 private:
  // [B, P], 0 where the patch was seen.
  at::Tensor PatchLosses(const ModelOutput& output, const Batch& batch) const {
    at::Tensor target = ToPatches(batch.inputs, config_.patch_size);
    if (config_.norm_pix_loss) {
      const PixelStatistics statistics = StatisticsOf(target);
      target = (target - statistics.mean) / statistics.deviation;
    }
    const at::Tensor error = output.values.to(at::kFloat) - target;
    return error.square().mean(-1) * output.mask;
  }

  const ReconstructionConfig config_;
};

}  // namespace

std::unique_ptr<Objective> MakeReconstruction(const ReconstructionConfig& config) {
  return std::make_unique<Reconstruction>(config);
}

at::Tensor Reconstruct(const ModelOutput& output, const at::Tensor& pictures,
                       const ReconstructionConfig& config) {
  const at::Tensor patches = ToPatches(pictures, config.patch_size);
  at::Tensor predicted = output.values.to(at::kFloat);
  if (config.norm_pix_loss) {
    // A model that learnt normed pixels says nothing of a patch's brightness and contrast: they
    // are taken from the original, as the paper's own pictures do.
    const PixelStatistics statistics = StatisticsOf(patches);
    predicted = predicted * statistics.deviation + statistics.mean;
  }
  const at::Tensor hidden = output.mask.unsqueeze(-1).to(at::kBool);
  return FromPatches(at::where(hidden, predicted, patches), pictures, config.patch_size);
}

}  // namespace muster::worker
