#include "worker/train/step/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "common/base/status_macros.h"
#include "worker/train/step/amp.h"
#include "worker/train/step/batch_feed.h"
#include "worker/train/step/torch_guard.h"

namespace muster::worker {

void ShareBuffers(Model& model, Collectives& gang) {
  if (gang.world_size() == 1 || !model.flat_buffers().defined()) return;
  at::NoGradGuard no_grad;
  at::Tensor buffers = model.flat_buffers();
  gang.Broadcast(buffers, 0);
}

namespace {

// Counts each sample in the cell of its class and the class that it was taken for.
void CountCells(at::Tensor& confusion, const at::Tensor& predicted, const at::Tensor& targets) {
  const at::Tensor cells = targets.mul(confusion.size(1)).add(predicted);
  confusion.add_(at::bincount(cells, /*weights=*/{}, confusion.numel()).view(confusion.sizes()));
}

// The ranks agree now and then, between two batches, whether they go on. After how many batches
// they meet again is rank 0's to say, by its clock.
class StopAgreement {
 public:
  StopAgreement(const Trainer& trainer, const EvaluationOptions& options)
      : trainer_(trainer), options_(options) {}

  // Before batch `index`: on each rank as often, whether it has one or not.
  RequestedStop Before(int64_t index) {
    if (!options_.requested) return {};
    const RequestedStop mine = options_.requested();
    if (index < next_) return {};
    const bool leads = trainer_.gang.rank() == 0;
    at::Tensor sums = at::zeros({3}, at::TensorOptions(at::kDouble));
    double* said = sums.data_ptr<double>();
    said[0] = mine.stop ? 1 : 0;
    said[1] = mine.save ? 1 : 0;
    said[2] = leads ? static_cast<double>(BatchesUntilNext(index)) : 0;
    sums = sums.to(trainer_.device);
    trainer_.gang.AllReduceSum(sums);
    const at::Tensor host = sums.cpu();
    trainer_.gang.Check();
    const double* agreed = host.const_data_ptr<double>();
    last_ = index;
    next_ = index + static_cast<int64_t>(agreed[2]);
    since_ = Clock::now();
    return {agreed[0] > 0, agreed[1] > 0};
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kSeconds = 2;  // between two meetings
  // Of the batches of the last time: one may be slow and the next ones fast, or the other way
  // round.
  static constexpr double kGrowth = 4;

  int64_t BatchesUntilNext(int64_t index) const {
    const double batches = static_cast<double>(std::max<int64_t>(1, index - last_));
    const double seconds = std::chrono::duration<double>(Clock::now() - since_).count();
    const double wanted = batches * kSeconds / std::max(seconds, 1e-9);
    return static_cast<int64_t>(std::floor(std::clamp(wanted, 1.0, kGrowth * batches)));
  }

  const Trainer& trainer_;
  const EvaluationOptions& options_;
  int64_t last_ = 0;  // the batch before which they met
  int64_t next_ = 0;
  Clock::time_point since_ = Clock::now();
};

// Of the rank that has the most.
int64_t MostBatches(Split split, const Trainer& trainer) {
  const uint32_t world = static_cast<uint32_t>(trainer.gang.world_size());
  int64_t most = 0;
  for (uint32_t rank = 0; rank < world; ++rank) {
    most = std::max(
        most, trainer.loader.EvalBatches(split, trainer.recipe.evaluation_batch_size, rank, world));
  }
  return most;
}

absl::StatusOr<Evaluation> EvaluateTogether(Split split, const Trainer& trainer,
                                            const EvaluationOptions& options) {
  const Recipe& recipe = trainer.recipe;
  const Loader& loader = trainer.loader;
  Model& model = trainer.model;
  const Objective& objective = trainer.objective;
  Collectives& gang = trainer.gang;
  const at::Device device = trainer.device;
  at::NoGradGuard no_grad;
  ShareBuffers(model, gang);
  model.SetTraining(false);
  const uint32_t rank = static_cast<uint32_t>(gang.rank());
  const uint32_t world = static_cast<uint32_t>(gang.world_size());
  // Double holds counts exactly up to 2^53. On the device, so that batches follow each other
  // without a wait.
  const int64_t classes = loader.dataset().classes();
  at::Tensor confusion;
  if (options.confusion)
    confusion = at::zeros({classes, classes}, at::TensorOptions(at::kLong).device(device));
  // Samples, right ones, loss; samples that top five says something of, right ones among them;
  // ranks that were asked to stop while they waited for data, and those of them to save.
  at::Tensor sums = at::zeros({7}, at::TensorOptions(at::kDouble).device(device));
  StopAgreement agreement(trainer, options);
  Evaluation evaluation;
  const int64_t batches = loader.EvalBatches(split, recipe.evaluation_batch_size, rank, world);
  const int64_t most = MostBatches(split, trainer);
  BatchFeed feed(
      trainer,
      [&](uint64_t index) {
        return loader.BeginEvalBatch(split, recipe.evaluation_batch_size,
                                     static_cast<int64_t>(index), rank, world);
      },
      0, static_cast<uint64_t>(batches));
  for (int64_t index = 0; index < most; ++index) {
    evaluation.requested = agreement.Before(index);
    if (evaluation.requested.stop) break;
    if (index >= batches) continue;
    MUSTER_ASSIGN_OR_RETURN(const std::optional<Batch> next, feed.Next([&](absl::Duration) {
      return !options.requested || !options.requested().stop;
    }));
    if (!next.has_value()) {
      // Until the next meeting, or the end.
      sums.select(0, 5).fill_(1);
      sums.select(0, 6).fill_(options.requested().save ? 1 : 0);
      continue;
    }
    const Batch& batch = *next;
    AutocastScope autocast(recipe.precision, device);
    const ModelOutput output = model.ForwardOf(
        {.ids = batch.ids, .head_apart = objective.takes_head_apart()}, batch.inputs);
    const LossAndCorrect result = objective.EvaluationLossAndCorrect(output, batch);
    if (options.confusion) CountCells(confusion, objective.Predicted(output), batch.targets);
    sums.select(0, 0).add_(static_cast<double>(batch.count));
    if (result.correct.defined()) sums.select(0, 1).add_(result.correct);
    sums.select(0, 2).add_(result.loss);
    const at::Tensor top_five = objective.CorrectInTopFive(output, batch);
    if (top_five.defined()) {
      sums.select(0, 3).add_(static_cast<double>(batch.count));
      sums.select(0, 4).add_(top_five);
    }
  }
  if (evaluation.requested.stop) return evaluation;
  gang.AllReduceSum(sums);
  if (options.confusion) gang.AllReduceSum(confusion);
  const at::Tensor host = sums.cpu();
  if (options.confusion) evaluation.confusion = confusion.cpu();
  gang.Check();
  const double* values = host.const_data_ptr<double>();
  evaluation.requested = {values[5] > 0, values[6] > 0};
  evaluation.samples = static_cast<int64_t>(values[0]);
  evaluation.correct = values[1];
  evaluation.loss = values[0] > 0 ? values[2] / values[0] : 0;
  if (values[3] > 0) evaluation.top5_accuracy = values[4] / values[3];
  return evaluation;
}

}  // namespace

absl::StatusOr<Evaluation> Evaluate(Split split, const Trainer& trainer,
                                    const EvaluationOptions& options) {
  absl::StatusOr<Evaluation> evaluation =
      TorchGuardOr([&] { return EvaluateTogether(split, trainer, options); });
  trainer.model.SetTraining(true);
  return evaluation;
}

}  // namespace muster::worker
