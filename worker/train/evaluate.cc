#include "worker/train/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/zeros.h>

#include "worker/train/amp.h"
#include "worker/train/device_feed.h"

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

}  // namespace

Evaluation Evaluate(Split split, const EvaluationParts& parts) {
  const auto& [recipe, loader, model, objective, gang, device, with_confusion] = parts;
  at::NoGradGuard no_grad;
  ShareBuffers(model, gang);
  model.SetTraining(false);
  const uint32_t rank = static_cast<uint32_t>(gang.rank());
  const uint32_t world = static_cast<uint32_t>(gang.world_size());
  // Double holds counts exactly up to 2^53. On the device, so that batches follow each other
  // without a wait.
  const int64_t classes = loader.dataset().classes();
  at::Tensor confusion;
  if (with_confusion)
    confusion = at::zeros({classes, classes}, at::TensorOptions(at::kLong).device(device));
  // Samples, right ones, loss; samples that top five says something of, right ones among them.
  at::Tensor sums = at::zeros({5}, at::TensorOptions(at::kDouble).device(device));
  DeviceFeed feed(device);
  const int64_t batches = loader.EvalBatches(split, recipe.evaluation_batch_size, rank, world);
  for (int64_t index = 0; index < batches; ++index) {
    const Batch batch =
        feed.Bring(loader.EvalBatch(split, recipe.evaluation_batch_size, index, rank, world));
    AutocastScope autocast(recipe.precision, device);
    const ModelOutput output = model.Forward(batch.inputs);
    const at::Tensor correct = objective.Correct(output, batch);
    if (with_confusion) CountCells(confusion, objective.Predicted(output), batch.targets);
    sums.select(0, 0).add_(static_cast<double>(batch.count));
    if (correct.defined()) sums.select(0, 1).add_(correct);
    sums.select(0, 2).add_(objective.EvaluationLoss(output, batch));
    const at::Tensor top_five = objective.CorrectInTopFive(output, batch);
    if (top_five.defined()) {
      sums.select(0, 3).add_(static_cast<double>(batch.count));
      sums.select(0, 4).add_(top_five);
    }
  }
  model.SetTraining(true);
  gang.AllReduceSum(sums);
  if (with_confusion) gang.AllReduceSum(confusion);
  const at::Tensor host = sums.cpu();
  const double* values = host.const_data_ptr<double>();
  Evaluation evaluation;
  evaluation.samples = static_cast<int64_t>(values[0]);
  evaluation.correct = values[1];
  evaluation.loss = values[0] > 0 ? values[2] / values[0] : 0;
  if (with_confusion) evaluation.confusion = confusion.cpu();
  if (values[3] > 0) evaluation.top5_accuracy = values[4] / values[3];
  return evaluation;
}

}  // namespace muster::worker
