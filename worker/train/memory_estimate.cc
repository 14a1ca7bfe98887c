#include "worker/train/memory_estimate.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/units.h"
#include "worker/train/allocation_trace.h"
#include "worker/train/amp.h"
#include "worker/train/in_copy.h"
#include "worker/train/malloc_rehearsal.h"
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

// Of a micro-batch, from that of `more` samples, the largest that there was.
AllocationTrace TraceAt(const EstimateParts& parts, const Batch& batch,
                        const AllocationTrace& trace, int64_t more) {
  const int64_t wanted = MicroBatchSamples(parts);
  if (more == wanted) return trace;
  // Activations grow with the samples, weights in other layouts do not: two sizes tell them apart.
  const int64_t few = (more + 1) / 2;
  if (few < more) {
    auto scaled = Extrapolate(TracePass(parts, batch, few), few, trace, more, wanted);
    if (scaled.has_value()) return *std::move(scaled);
  }
  AllocationTrace scaled = trace;
  for (AllocationTrace::Event& event : scaled.events) {
    if (!event.kept) event.bytes = event.bytes * wanted / more;
  }
  return scaled;
}

int64_t BucketBytes(const EstimateParts& parts) {
  const std::vector<at::Tensor> trained = parts.model.TrainedParameters();
  return parts.planned.has_value() ? PlannedBucketBytes(trained, *parts.planned)
                                   : parts.gang.BucketBytes(trained);
}

// Of all that a checkpoint copies.
std::vector<int64_t> SavedBytes(const EstimateParts& parts) {
  std::vector<int64_t> bytes;
  const auto add = [&bytes](const auto& tensors) {
    for (const auto& entry : tensors) bytes.push_back(static_cast<int64_t>(entry.tensor.nbytes()));
  };
  add(parts.model.state());
  add(parts.optimizer.state());
  if (parts.ema != nullptr) add(parts.ema->state());
  if (parts.pruner != nullptr) add(parts.pruner->state());
  return bytes;
}

std::vector<int64_t> OptimizerBytes(const EstimateParts& parts) {
  return parts.optimizer.StepBytes(/*may_skip=*/!parts.device.is_cpu());
}

void TakeForAWhile(const std::vector<int64_t>& sizes, MallocRehearsal& rehearsal) {
  std::vector<size_t> blocks;
  for (const int64_t bytes : sizes) blocks.push_back(rehearsal.Take(bytes));
  for (const size_t block : blocks) rehearsal.GiveBack(block);
}

// The steps of a run as the tensors of its loop, its gradients and a save come and go. `batch` are
// the bytes of a whole batch of this rank, `pass` is that of a micro-batch.
std::optional<int64_t> RehearsedGrowth(const EstimateParts& parts, int64_t batch,
                                       const AllocationTrace& pass) {
  constexpr int kSteps = 4;  // from then on a run's peak stays
  constexpr int kSaveAfter = 2;
  MallocRehearsal rehearsal;
  rehearsal.Take(BucketBytes(parts));
  std::vector<size_t> gradients;
  for (int step = 1; step <= kSteps; ++step) {
    for (const size_t gradient : gradients) rehearsal.GiveBack(gradient);
    const size_t inputs = rehearsal.Take(batch);
    gradients = rehearsal.Play(pass, /*keep=*/true);
    if (parts.recipe.accumulate > 1) rehearsal.Play(pass, /*keep=*/false);
    TakeForAWhile(OptimizerBytes(parts), rehearsal);
    if (parts.pruner != nullptr) TakeForAWhile(parts.pruner->GrowingBytes(), rehearsal);
    if (step == kSaveAfter && parts.gang.rank() == 0) {
      for (const int64_t bytes : SavedBytes(parts)) rehearsal.Take(bytes);
    }
    rehearsal.GiveBack(inputs);
  }
  return rehearsal.GrowthBytes();
}

// Whatever the process will hold that no part explains.
void AddHoles(const EstimateParts& parts, int64_t batch, const AllocationTrace& pass,
              MemoryEstimate& estimate) {
  constexpr absl::Duration kLimit = absl::Seconds(10);
  constexpr int64_t kUnknown = -1;
  const int64_t now = MeasureMemory(parts.device).now_bytes;
  const std::optional<int64_t> growth =
      InCopy([&] { return RehearsedGrowth(parts, batch, pass).value_or(kUnknown); }, kLimit);
  if (!growth.has_value() || *growth == kUnknown) return;
  const int64_t unexplained = now + *growth - estimate.total();
  // Less: some parts will lie where the program has freed memory by now.
  estimate.program += std::min<int64_t>(0, unexplained);
  estimate.holes = std::max<int64_t>(0, unexplained);
}

}  // namespace

MemoryEstimate CountMemory(const EstimateParts& parts) {
  MemoryEstimate estimate;
  estimate.weights = Bytes(parts.model.parameters()) + Bytes(parts.model.buffers());
  for (const at::Tensor& tensor : parts.model.TrainedParameters())
    estimate.gradients += static_cast<int64_t>(tensor.nbytes());
  estimate.gradients += BucketBytes(parts);
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
  Batch batch = parts.loader.TrainBatch(0, static_cast<uint32_t>(parts.gang.rank()),
                                        static_cast<uint32_t>(parts.gang.world_size()));
  const int64_t wanted = MicroBatchSamples(parts);
  const int64_t more = std::min({wanted, batch.inputs.size(0), kDrySamples});
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
  const AllocationTrace pass = TraceAt(parts, batch, trace, more);
  // The gradients of the first micro-batch are there when those of the next come; else they come as
  // activations go.
  estimate.activations = parts.recipe.accumulate > 1 ? pass.PeakBytesBesideKept()
                                                     : pass.PeakBytes() - pass.KeptBytes();
  // What comes when the activations are gone: the optimizer's step, and masks that grow.
  const auto after = [&estimate](const std::vector<int64_t>& sizes) {
    const int64_t bytes = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    estimate.activations = std::max(estimate.activations, bytes);
  };
  after(OptimizerBytes(parts));
  if (parts.pruner != nullptr) after(parts.pruner->GrowingBytes());
  const int64_t batch_bytes = static_cast<int64_t>(batch.inputs.nbytes() + batch.targets.nbytes());
  batch = Batch();
  if (parts.device.is_cpu()) AddHoles(parts, batch_bytes, pass, estimate);
}

std::string MemoryText(const MemoryEstimate& estimate) {
  std::vector<std::pair<const char*, int64_t>> parts = {
      {"program", estimate.program},
      {"data", estimate.data},
      {"weights", estimate.weights},
      {"gradients", estimate.gradients},
      {"optimizer", estimate.optimizer},
      {"moving average", estimate.average},
      {"copy for checkpoints", estimate.checkpoint},
      {"activations", estimate.activations},
      {"holes that malloc keeps", estimate.holes}};
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> texts;
  for (const auto& [name, bytes] : parts) {
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
