#include "worker/train/memory_estimate.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/units.h"
#include "worker/train/allocation_trace.h"
#include "worker/train/amp.h"
#include "worker/train/memory_probe.h"

namespace muster::worker {
namespace {

template <typename Named>
int64_t Bytes(const std::vector<Named>& tensors) {
  int64_t bytes = 0;
  for (const Named& entry : tensors) bytes += static_cast<int64_t>(entry.tensor.nbytes());
  return bytes;
}

// Samples of the largest micro-batch of this rank.
int64_t MicroBatchSamples(const EstimateParts& parts) {
  const uint64_t share =
      ShardOf(parts.loader.sampler().batch_size(), static_cast<uint32_t>(parts.gang.rank()),
              static_cast<uint32_t>(parts.gang.world_size()))
          .size();
  const int64_t samples = std::max<int64_t>(1, static_cast<int64_t>(share));
  return (samples + parts.recipe.accumulate - 1) / parts.recipe.accumulate;
}

// Puts the buffers and gradients back as they were when it goes.
class ModelAsItWas {
 public:
  explicit ModelAsItWas(Model& model) : model_(model) {
    for (const ModelTensor& entry : model.buffers()) buffers_.push_back(entry.tensor.clone());
  }
  ~ModelAsItWas() {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < buffers_.size(); ++i)
      at::Tensor(model_.buffers()[i].tensor).copy_(buffers_[i]);
    for (const ModelTensor& entry : model_.parameters())
      at::Tensor(entry.tensor).mutable_grad().reset();
  }
  ModelAsItWas(const ModelAsItWas&) = delete;
  ModelAsItWas& operator=(const ModelAsItWas&) = delete;

 private:
  Model& model_;
  std::vector<at::Tensor> buffers_;
};

// Of a forward and backward pass of the first `samples` samples. What is kept are the gradients.
AllocationTrace TracePass(const EstimateParts& parts, const Batch& batch, int64_t samples) {
  const ModelAsItWas restored(parts.model);
  Batch part = batch;
  part.inputs = batch.inputs.narrow(0, 0, samples).to(parts.device);
  part.targets = batch.targets.narrow(0, 0, samples).to(parts.device);
  return TraceAllocations([&] {
    at::Tensor loss;
    {
      const AutocastScope autocast(parts.recipe.precision, parts.device);
      const ModelOutput output = parts.model.Forward(part.inputs);
      loss = parts.objective.TrainingLoss(output, part);
    }
    torch::autograd::backward({loss});
  });
}

// Where gradients stay from one pass to the next (buckets, micro-batches) they are held beside all
// activations; else they come as activations go.
int64_t BesideGradients(const EstimateParts& parts, const AllocationTrace& trace) {
  const int ranks = parts.ranks > 0 ? parts.ranks : parts.gang.world_size();
  if (ranks > 1 || parts.recipe.accumulate > 1) return trace.PeakBytesBesideKept();
  return trace.PeakBytes() - trace.KeptBytes();
}

// From a pass of `more` samples, the largest that there was, to those of a micro-batch.
int64_t ActivationsAt(const EstimateParts& parts, const Batch& batch, const AllocationTrace& trace,
                      int64_t more) {
  const int64_t wanted = MicroBatchSamples(parts);
  if (more == wanted) return BesideGradients(parts, trace);
  // Activations grow with the samples, weights in other layouts do not: two sizes tell them apart.
  const int64_t few = (more + 1) / 2;
  if (few < more) {
    const auto scaled = Extrapolate(TracePass(parts, batch, few), few, trace, more, wanted);
    if (scaled.has_value()) return BesideGradients(parts, *scaled);
  }
  return BesideGradients(parts, trace) * wanted / more;
}

}  // namespace

MemoryEstimate CountMemory(const EstimateParts& parts) {
  MemoryEstimate estimate;
  estimate.weights = Bytes(parts.model.parameters()) + Bytes(parts.model.buffers());
  for (const ModelTensor& entry : parts.model.parameters()) {
    if (entry.tensor.requires_grad())
      estimate.gradients += static_cast<int64_t>(entry.tensor.nbytes());
  }
  // These exchange copies of the gradients in buckets; shared memory is given them as they lie.
  const std::string transport = parts.gang.transport();
  if (transport == "gloo" || absl::StartsWith(transport, "nccl")) estimate.gradients *= 2;
  estimate.optimizer = Bytes(parts.optimizer.state());
  if (parts.pruner != nullptr) estimate.optimizer += Bytes(parts.pruner->state());
  if (parts.ema != nullptr) estimate.average = Bytes(parts.ema->state());
  const int64_t saved = estimate.weights + estimate.optimizer + estimate.average;
  estimate.weights += parts.objective.held_bytes();
  if (!parts.device.is_cpu()) return estimate;
  const int64_t dataset = parts.loader.dataset().bytes();
  const int64_t held = estimate.weights + estimate.optimizer + estimate.average + dataset;
  estimate.program = std::max<int64_t>(0, MeasureMemory(parts.device).now_bytes - held);
  // As the model takes it, which may be wider than it is stored.
  const Batch first = parts.loader.EvalBatch(Split::kTrain, 1, 0, 0, 1);
  const int64_t sample = static_cast<int64_t>(first.inputs.nbytes() + first.targets.nbytes());
  estimate.data = dataset + sample * MicroBatchSamples(parts) * parts.recipe.accumulate;
  if (parts.gang.rank() == 0) estimate.checkpoint = saved;
  return estimate;
}

void MeasureActivations(const EstimateParts& parts, MemoryEstimate& estimate) {
  const MemoryUse before = MeasureMemory(parts.device);
  const Batch batch = parts.loader.TrainBatch(0, static_cast<uint32_t>(parts.gang.rank()),
                                              static_cast<uint32_t>(parts.gang.world_size()));
  const int64_t wanted = MicroBatchSamples(parts);
  const int64_t at_hand = batch.inputs.size(0);
  const int64_t more = std::min({wanted, at_hand, kDrySamples});
  const AllocationTrace trace = TracePass(parts, batch, more);
  if (parts.device.is_cpu()) {
    // What the kernels loaded and took beside the tensors. malloc may have given back by now what
    // the tensors took, so the peak tells, unless it is older than the pass.
    const MemoryUse after = MeasureMemory(parts.device);
    const int64_t highest =
        after.peak_bytes > before.peak_bytes ? after.peak_bytes : after.now_bytes;
    const int64_t grown = highest - before.now_bytes;
    estimate.program += std::max<int64_t>(0, grown - trace.PeakBytes());
  }
  estimate.activations = ActivationsAt(parts, batch, trace, more);
  if (parts.device.is_cpu())
    estimate.holes = static_cast<int64_t>(kHoles * static_cast<double>(estimate.activations));
}

std::string MemoryText(const MemoryEstimate& estimate) {
  std::vector<std::pair<int64_t, const char*>> parts = {
      {estimate.program, "program"},
      {estimate.data, "data"},
      {estimate.weights, "weights"},
      {estimate.gradients, "gradients"},
      {estimate.optimizer, "optimizer"},
      {estimate.average, "moving average"},
      {estimate.checkpoint, "copy for checkpoints"},
      {estimate.activations, "activations"},
      {estimate.holes, "holes that malloc keeps"}};
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> texts;
  for (const auto& [bytes, name] : parts) {
    if (bytes > 0) texts.push_back(absl::StrCat(name, " ", HumanBytes(static_cast<double>(bytes))));
  }
  return absl::StrJoin(texts, ", ");
}

std::string MemoryAdvice(const Recipe& recipe) {
  std::string advice =
      absl::StrCat("a smaller train.batch_size, train.accumulate above ", recipe.accumulate);
  if (!recipe.checkpoint_blocks)
    absl::StrAppend(&advice, ", train.memory.checkpoint_blocks where the model has blocks");
  if (recipe.precision == Precision::kFp32 || recipe.precision == Precision::kTf32)
    absl::StrAppend(&advice, ", train.precision bf16");
  return advice + ", or more ranks";
}

}  // namespace muster::worker
