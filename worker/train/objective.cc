#include "worker/train/objective.h"

#include <ATen/ops/cross_entropy_loss.h>

namespace muster::worker {
namespace {

class CrossEntropy final : public Objective {
 public:
  explicit CrossEntropy(double label_smoothing) : label_smoothing_(label_smoothing) {}

  at::Tensor TrainingLoss(const ModelOutput& output, const Batch& batch) const override {
    return at::cross_entropy_loss(output.values, batch.targets, /*weight=*/{}, at::Reduction::Mean,
                                  /*ignore_index=*/-100, label_smoothing_);
  }

  at::Tensor EvaluationLoss(const ModelOutput& output, const Batch& batch) const override {
    return at::cross_entropy_loss(output.values, batch.targets, /*weight=*/{}, at::Reduction::Sum);
  }

  at::Tensor Correct(const ModelOutput& output, const Batch& batch) const override {
    return output.values.argmax(1).eq(batch.targets).sum();
  }

 private:
  const double label_smoothing_;
};

}  // namespace

std::unique_ptr<Objective> MakeCrossEntropy(double label_smoothing) {
  return std::make_unique<CrossEntropy>(label_smoothing);
}

}  // namespace muster::worker
