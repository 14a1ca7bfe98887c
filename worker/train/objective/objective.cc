#include "worker/train/objective/objective.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/topk.h>

#include <cmath>
#include <tuple>

#include "worker/models/layers/token_head.h"
#include "worker/train/objective/chunked_cross_entropy.h"

namespace muster::worker {
namespace {

constexpr int64_t kTopFive = 5;

at::Tensor ClassesOf(const Batch& batch) {
  return batch.targets.is_floating_point() ? batch.targets.argmax(1) : batch.targets;
}

// Targets as floats [B, C] on the device of the outputs.
at::Tensor DenseTargets(const ModelOutput& output, const Batch& batch, double smoothing) {
  const int64_t classes = output.values.size(1);
  at::Tensor dense_BC = batch.targets;
  if (!dense_BC.is_floating_point()) {
    dense_BC = dense_BC.unsqueeze(1).eq(at::arange(classes, dense_BC.options())).to(at::kFloat);
  }
  if (smoothing == 0) return dense_BC;
  return dense_BC.mul(1 - smoothing).add(smoothing / static_cast<double>(classes));
}

class Classification : public Objective {
 public:
  bool accuracy_leads() const override { return true; }

  at::Tensor Correct(const ModelOutput& output, const Batch& batch) const override {
    return Predicted(output).eq(ClassesOf(batch)).sum();
  }

  at::Tensor Predicted(const ModelOutput& output) const override { return output.values.argmax(1); }

  at::Tensor CorrectInTopFive(const ModelOutput& output, const Batch& batch) const override {
    if (output.values.size(1) <= kTopFive) return {};
    const at::Tensor best_B5 = std::get<1>(at::topk(output.values, kTopFive, /*dim=*/1));
    return best_B5.eq(ClassesOf(batch).unsqueeze(1)).sum();
  }
};

class CrossEntropy final : public Classification {
 public:
  explicit CrossEntropy(double label_smoothing) : label_smoothing_(label_smoothing) {}

  at::Tensor TrainingLoss(const ModelOutput& output, const Batch& batch) const override {
    return at::cross_entropy_loss(output.values, batch.targets, /*weight=*/{}, at::Reduction::Mean,
                                  /*ignore_index=*/-100, label_smoothing_);
  }

  at::Tensor EvaluationLoss(const ModelOutput& output, const Batch& batch) const override {
    return at::cross_entropy_loss(output.values, batch.targets, /*weight=*/{}, at::Reduction::Sum);
  }

 private:
  const double label_smoothing_;
};

// The two losses below are made of single numbers: their mean over samples and classes is the mean
// over all, and outputs that autocast computed in half precision count in full.

class BinaryCrossEntropy final : public Classification {
 public:
  explicit BinaryCrossEntropy(double label_smoothing) : label_smoothing_(label_smoothing) {}

  at::Tensor TrainingLoss(const ModelOutput& output, const Batch& batch) const override {
    return Loss(output, DenseTargets(output, batch, label_smoothing_), at::Reduction::Mean);
  }

  at::Tensor EvaluationLoss(const ModelOutput& output, const Batch& batch) const override {
    return Loss(output, DenseTargets(output, batch, 0), at::Reduction::Sum)
        .div(static_cast<double>(output.values.size(1)));
  }

 private:
  static at::Tensor Loss(const ModelOutput& output, const at::Tensor& targets_BC,
                         int64_t reduction) {
    return at::binary_cross_entropy_with_logits(output.values.to(at::kFloat), targets_BC,
                                                /*weight=*/{}, /*pos_weight=*/{}, reduction);
  }

  const double label_smoothing_;
};

class MeanSquaredError final : public Classification {
 public:
  at::Tensor TrainingLoss(const ModelOutput& output, const Batch& batch) const override {
    return at::mse_loss(output.values.to(at::kFloat), DenseTargets(output, batch, 0),
                        at::Reduction::Mean);
  }

  at::Tensor EvaluationLoss(const ModelOutput& output, const Batch& batch) const override {
    return at::mse_loss(output.values.to(at::kFloat), DenseTargets(output, batch, 0),
                        at::Reduction::Sum)
        .div(static_cast<double>(output.values.size(1)));
  }
};

class Regression final : public Objective {
 public:
  bool accuracy_leads() const override { return false; }
  bool has_accuracy() const override { return false; }

  at::Tensor TrainingLoss(const ModelOutput& output, const Batch& batch) const override {
    return at::mse_loss(output.values.to(at::kFloat), batch.targets, at::Reduction::Mean);
  }

  at::Tensor EvaluationLoss(const ModelOutput& output, const Batch& batch) const override {
    return at::mse_loss(output.values.to(at::kFloat), batch.targets, at::Reduction::Sum)
        .div(static_cast<double>(output.values.size(1)));
  }

  at::Tensor Correct(const ModelOutput&, const Batch&) const override { return {}; }
};

class LanguageModel final : public Objective {
 public:
  explicit LanguageModel(double label_smoothing) : label_smoothing_(label_smoothing) {}

  bool accuracy_leads() const override { return false; }
  bool takes_head_apart() const override { return true; }

  at::Tensor TrainingLoss(const ModelOutput& output, const Batch& batch) const override {
    if (output.table.defined())
      return TrainingLossAndCorrect(output, batch, /*with_correct=*/false).loss;
    return Loss(output, batch, at::Reduction::Mean, label_smoothing_);
  }

  at::Tensor EvaluationLoss(const ModelOutput& output, const Batch& batch) const override {
    if (output.table.defined()) return EvaluationLossAndCorrect(output, batch).loss;
    return Loss(output, batch, at::Reduction::Sum, /*label_smoothing=*/0).div(Length(batch));
  }

  at::Tensor Correct(const ModelOutput& output, const Batch& batch) const override {
    if (output.table.defined()) return EvaluationLossAndCorrect(output, batch).correct;
    return Right(output.values.argmax(2), batch);
  }

  LossAndCorrect TrainingLossAndCorrect(const ModelOutput& output, const Batch& batch,
                                        bool with_correct) const override {
    if (!output.table.defined())
      return Objective::TrainingLossAndCorrect(output, batch, with_correct);
    const ChunkedLoss chunked = Chunked(output, batch, at::Reduction::Mean, label_smoothing_);
    return {chunked.loss, with_correct ? Right(chunked.predicted_R, batch) : at::Tensor()};
  }

  LossAndCorrect EvaluationLossAndCorrect(const ModelOutput& output,
                                          const Batch& batch) const override {
    if (!output.table.defined()) return Objective::EvaluationLossAndCorrect(output, batch);
    const at::NoGradGuard no_grad;
    const ChunkedLoss chunked = Chunked(output, batch, at::Reduction::Sum, /*label_smoothing=*/0);
    return {chunked.loss.div(Length(batch)), Right(chunked.predicted_R, batch)};
  }

  std::map<std::string, double> Derived(double loss) const override {
    return {{"perplexity", std::exp(loss)}};
  }

 private:
  static at::Tensor Loss(const ModelOutput& output, const Batch& batch, int64_t reduction,
                         double label_smoothing) {
    const at::Tensor& logits_BTV = output.values;
    return at::cross_entropy_loss(logits_BTV.reshape({-1, logits_BTV.size(2)}),
                                  batch.targets.reshape({-1}), /*weight=*/{}, reduction,
                                  /*ignore_index=*/-100, label_smoothing);
  }

  static ChunkedLoss Chunked(const ModelOutput& output, const Batch& batch, int64_t reduction,
                             double label_smoothing) {
    const at::Tensor& hidden_BTW = output.hidden;
    return ChunkedCrossEntropy(hidden_BTW.reshape({-1, hidden_BTW.size(2)}), output.table,
                               batch.targets.reshape({-1}),
                               {.reduction = reduction,
                                .label_smoothing = label_smoothing,
                                .chunk_rows = ChunkRows(output.table.size(0)),
                                .row_multiple = RowMultiple(output.table.device())});
  }

  static double Length(const Batch& batch) { return static_cast<double>(batch.targets.size(1)); }

  // `predicted`: tokens, as many as there are targets.
  static at::Tensor Right(const at::Tensor& predicted, const Batch& batch) {
    return predicted.view_as(batch.targets).eq(batch.targets).sum().div(Length(batch));
  }

  const double label_smoothing_;
};

}  // namespace

at::Tensor Objective::Predicted(const ModelOutput&) const { return {}; }

at::Tensor Objective::CorrectInTopFive(const ModelOutput&, const Batch&) const { return {}; }

LossAndCorrect Objective::TrainingLossAndCorrect(const ModelOutput& output, const Batch& batch,
                                                 bool with_correct) const {
  LossAndCorrect result = {.loss = TrainingLoss(output, batch)};
  const at::NoGradGuard no_grad;
  if (with_correct) result.correct = Correct(output, batch);
  return result;
}

LossAndCorrect Objective::EvaluationLossAndCorrect(const ModelOutput& output,
                                                   const Batch& batch) const {
  return {EvaluationLoss(output, batch), Correct(output, batch)};
}

std::unique_ptr<Objective> MakeCrossEntropy(double label_smoothing) {
  return std::make_unique<CrossEntropy>(label_smoothing);
}

std::unique_ptr<Objective> MakeBinaryCrossEntropy(double label_smoothing) {
  return std::make_unique<BinaryCrossEntropy>(label_smoothing);
}

std::unique_ptr<Objective> MakeMeanSquaredError() { return std::make_unique<MeanSquaredError>(); }

std::unique_ptr<Objective> MakeRegression() { return std::make_unique<Regression>(); }

std::unique_ptr<Objective> MakeLanguageModel(double label_smoothing) {
  return std::make_unique<LanguageModel>(label_smoothing);
}

}  // namespace muster::worker
