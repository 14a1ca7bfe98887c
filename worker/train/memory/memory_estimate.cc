#include "worker/train/memory/memory_estimate.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "worker/data/model_inputs.h"
#include "worker/train/memory/allocation_trace.h"
#include "worker/train/memory/malloc_rehearsal.h"
#include "worker/train/memory/memory_probe.h"
#include "worker/train/memory/run_in_fork.h"
#include "worker/train/recipe/ema.h"
#include "worker/train/recipe/prune.h"
#include "worker/train/run/failure.h"
#include "worker/train/step/amp.h"

namespace muster::worker {
namespace {

template <typename Named>
int64_t Bytes(const std::vector<Named>& tensors) {
  int64_t bytes = 0;
  for (const Named& entry : tensors) bytes += static_cast<int64_t>(entry.tensor.nbytes());
  return bytes;
}

// Samples of the largest micro-batch of a rank.
int64_t MicroBatchSamples(const Trainer& trainer, int rank) {
  const uint64_t share =
      EvenPart(trainer.loader.sampler().batch_size(), static_cast<uint32_t>(rank),
               static_cast<uint32_t>(trainer.gang.world_size()))
          .size();
  const int64_t samples = std::max<int64_t>(1, static_cast<int64_t>(share));
  return (samples + trainer.recipe.accumulate - 1) / trainer.recipe.accumulate;
}

int64_t MicroBatchSamples(const Trainer& trainer) {
  return MicroBatchSamples(trainer, trainer.gang.rank());
}

// How a rank tells what grows with the samples: `most` of them at once, and where that is not a
// whole micro-batch `few`, too.
struct DryRun {
  int64_t most = 0;
  int64_t few = 0;
  bool Scales() const { return few < most; }
};

DryRun DryRunOf(const Trainer& trainer, int rank) {
  const int64_t wanted = MicroBatchSamples(trainer, rank);
  const uint32_t world = static_cast<uint32_t>(trainer.gang.world_size());
  // The first step's batch, which is short where the whole run is.
  const auto share = static_cast<int64_t>(
      EvenPart(trainer.loader.sampler().GlobalBatch(0), static_cast<uint32_t>(rank), world).size());
  DryRun dry;
  dry.most = std::min({wanted, std::max<int64_t>(share, 1), kDrySamples});
  // Two, for batch norm takes no single value.
  dry.few =
      dry.most == wanted ? dry.most : std::min(dry.most, std::max<int64_t>(2, (dry.most + 1) / 2));
  return dry;
}

// Passes may hold collectives: where one rank makes a second one, all do.
bool SomeRankScales(const Trainer& trainer) {
  for (int rank = 0; rank < trainer.gang.world_size(); ++rank) {
    if (DryRunOf(trainer, rank).Scales()) return true;
  }
  return false;
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

// No trials of algorithms for batches of a size that no step has: they take time, and memory that a
// step does not.
class NoTrials {
 public:
  NoTrials() { at::globalContext().setBenchmarkCuDNN(false); }
  ~NoTrials() { at::globalContext().setBenchmarkCuDNN(tries_); }
  NoTrials(const NoTrials&) = delete;
  NoTrials& operator=(const NoTrials&) = delete;

 private:
  const bool tries_ = at::globalContext().benchmarkCuDNN();
};

// The first `samples` samples, on the device.
Batch FirstOf(const Trainer& trainer, const Batch& batch, int64_t samples) {
  Batch part = batch;
  part.inputs = batch.inputs.narrow(0, 0, samples).to(trainer.device);
  part.targets = batch.targets.narrow(0, 0, samples).to(trainer.device);
  part.ids.resize(static_cast<size_t>(samples));
  return WithModelInputs(std::move(part));
}

ModelOutput ForwardOf(const Trainer& trainer, const Batch& part) {
  return trainer.model.ForwardOf({.ids = part.ids,
                                  .count = part.count > 0,
                                  .head_apart = trainer.objective.takes_head_apart()},
                                 part.inputs);
}

// Of a forward and backward pass of the first `samples` samples. What is kept are the gradients.
AllocationTrace TracePass(const Trainer& trainer, const Batch& batch, int64_t samples) {
  const ModelAsItWas restored(trainer.model);
  const Batch part = FirstOf(trainer, batch, samples);
  return TraceAllocations([&] {
    at::Tensor loss;
    {
      const AutocastScope autocast(trainer.recipe.precision, trainer.device);
      const ModelOutput output = ForwardOf(trainer, part);
      loss = trainer.objective.TrainingLoss(output, part);
    }
    torch::autograd::backward({loss});
  });
}

// Of a batch of the evaluation. Nothing is kept.
AllocationTrace TraceEvaluation(const Trainer& trainer, const Batch& batch, int64_t samples) {
  const at::NoGradGuard no_grad;
  const Batch part = FirstOf(trainer, batch, samples);
  trainer.model.SetTraining(false);
  AllocationTrace trace = TraceAllocations([&] {
    const AutocastScope autocast(trainer.recipe.precision, trainer.device);
    const ModelOutput output = ForwardOf(trainer, part);
    trainer.objective.EvaluationLossAndCorrect(output, part);
    trainer.objective.CorrectInTopFive(output, part);
  });
  trainer.model.SetTraining(true);
  return trace;
}

// Of `wanted` samples, from the traces of a dry run.
AllocationTrace Scale(const AllocationTrace& most, const AllocationTrace& few, const DryRun& dry,
                      int64_t wanted) {
  if (dry.most == wanted) return most;
  // Activations grow with the samples, weights in other layouts do not: two sizes tell them apart.
  if (dry.Scales()) {
    auto scaled = Extrapolate(few, dry.few, most, dry.most, wanted);
    if (scaled.has_value()) return *std::move(scaled);
  }
  AllocationTrace scaled = most;
  for (AllocationTrace::Event& event : scaled.events) {
    if (!event.kept) event.bytes = event.bytes * wanted / dry.most;
  }
  return scaled;
}

// Samples of a rank's part of the batch of `step`.
int64_t PartSamples(const Trainer& trainer, int64_t step, int64_t part, int rank) {
  const uint64_t share =
      EvenPart(trainer.loader.sampler().GlobalBatch(static_cast<uint64_t>(step)),
               static_cast<uint32_t>(rank), static_cast<uint32_t>(trainer.gang.world_size()))
          .size();
  return static_cast<int64_t>(
      EvenPart(share, static_cast<uint32_t>(part), static_cast<uint32_t>(trainer.recipe.accumulate))
          .size());
}

// The part of the batch of `step` in which some rank has a single sample; -1: none.
int64_t PartOfOneSample(const Trainer& trainer, int64_t step) {
  for (int64_t part = 0; part < trainer.recipe.accumulate; ++part) {
    for (int rank = 0; rank < trainer.gang.world_size(); ++rank) {
      if (PartSamples(trainer, step, part, rank) == 1) return part;
    }
  }
  return -1;
}

// Batch norm takes no single value, which the short last batch of a long run may leave it: better
// to hear of it now. All steps but the last are alike.
void RehearseSingleSamples(const Trainer& trainer, const Batch& batch) {
  if (trainer.model.buffers().empty()) return;
  const ModelAsItWas restored(trainer.model);
  const at::NoGradGuard no_grad;
  for (const int64_t step : {int64_t{0}, std::max<int64_t>(trainer.recipe.total_steps, 1) - 1}) {
    const int64_t part = PartOfOneSample(trainer, step);
    if (part < 0) continue;
    const int64_t samples = PartSamples(trainer, step, part, trainer.gang.rank());
    Batch single = FirstOf(trainer, batch, std::clamp<int64_t>(samples, 1, batch.inputs.size(0)));
    single.count = samples;
    const AutocastScope autocast(trainer.recipe.precision, trainer.device);
    ForwardOf(trainer, single);
  }
}

// Sets of tensors that each of the two feeds has on a device (device_feed.h).
constexpr int64_t kSetsOnDevice = 2;

int64_t BatchSamples(const Trainer& trainer) {
  return MicroBatchSamples(trainer) * trainer.recipe.accumulate;
}

DataNeeds NeedsOf(const Trainer& trainer) {
  return trainer.loader.Needs(BatchSamples(trainer), trainer.recipe.evaluation_batch_size);
}

int64_t BatchBytesOnDevice(const Trainer& trainer) {
  const DataNeeds needs = NeedsOf(trainer);
  const int64_t samples = BatchSamples(trainer) + trainer.recipe.evaluation_batch_size;
  return kSetsOnDevice *
         (needs.batch + needs.evaluation_batch + samples * trainer.loader.scaled_sample_bytes());
}

// What a gang is planned to be, where the trainer's is that of one rank alone.
using PlannedGang = std::optional<CollectivesOptions>;

int64_t BufferBytes(const Trainer& trainer, const PlannedGang& planned) {
  return planned.has_value() ? PlannedBufferBytes(trainer.model.TrainedParameters(), *planned)
                             : trainer.strategy->buffer_bytes();
}

// Of all that a checkpoint copies on this rank.
std::vector<int64_t> SavedBytes(const Trainer& trainer) {
  std::vector<int64_t> bytes;
  const auto add = [&](const auto& tensors) {
    for (const auto& entry : tensors) {
      if (trainer.strategy->Saves(entry.tensor))
        bytes.push_back(static_cast<int64_t>(entry.tensor.nbytes()));
    }
  };
  add(trainer.model.state());
  add(trainer.optimizer->state());
  if (trainer.ema != nullptr) add(trainer.ema->state());
  if (trainer.pruner != nullptr) add(trainer.pruner->state());
  return bytes;
}

std::vector<int64_t> OptimizerBytes(const Trainer& trainer) {
  return trainer.optimizer->StepBytes(/*may_skip=*/!trainer.device.is_cpu());
}

void TakeForAWhile(const std::vector<int64_t>& sizes, MallocRehearsal& rehearsal) {
  std::vector<size_t> blocks;
  for (const int64_t bytes : sizes) blocks.push_back(rehearsal.Take(bytes));
  for (const size_t block : blocks) rehearsal.GiveBack(block);
}

// The steps of a run as the tensors of its loop, its gradients and a save come and go. `buckets`
// and `batch` are the bytes of the gang's buckets and of a whole batch of this rank, `pass` is that
// of a micro-batch.
std::optional<int64_t> RehearsedGrowth(const Trainer& trainer, int64_t buckets, int64_t batch,
                                       const AllocationTrace& pass) {
  constexpr int kSteps = 4;  // from then on a run's peak stays
  constexpr int kSaveAfter = 2;
  MallocRehearsal rehearsal;
  rehearsal.Take(buckets);
  rehearsal.Take(trainer.loader.ahead().batches * batch);
  std::vector<size_t> gradients;
  for (int step = 1; step <= kSteps; ++step) {
    for (const size_t gradient : gradients) rehearsal.GiveBack(gradient);
    const size_t inputs = rehearsal.Take(batch);
    gradients = rehearsal.Play(pass, /*keep=*/true);
    if (trainer.recipe.accumulate > 1) rehearsal.Play(pass, /*keep=*/false);
    TakeForAWhile(OptimizerBytes(trainer), rehearsal);
    if (trainer.pruner != nullptr) TakeForAWhile(trainer.pruner->GrowingBytes(), rehearsal);
    if (step == kSaveAfter) {
      // A validation comes before a save, while the step's own batch is still there.
      rehearsal.GiveBack(rehearsal.Take(EvaluationBytes(trainer.loader.ahead(), NeedsOf(trainer))));
      for (const int64_t bytes : SavedBytes(trainer)) rehearsal.Take(bytes);
    }
    rehearsal.GiveBack(inputs);
  }
  return rehearsal.GrowthBytes();
}

// Whatever the process will hold that no part explains.
void AddHoles(const Trainer& trainer, int64_t buckets, int64_t batch, const AllocationTrace& pass,
              MemoryEstimate& estimate) {
  constexpr absl::Duration kLimit = absl::Seconds(10);
  constexpr int64_t kUnknown = -1;
  const int64_t now = MeasureMemory(trainer.device).now_bytes;
  const std::optional<int64_t> growth = RunInFork(
      [&] { return RehearsedGrowth(trainer, buckets, batch, pass).value_or(kUnknown); }, kLimit);
  if (!growth.has_value() || *growth == kUnknown) return;
  const int64_t unexplained = now + *growth - estimate.total();
  // Less: some parts will lie where the program has freed memory by now.
  estimate.program += std::min<int64_t>(0, unexplained);
  estimate.holes = std::max<int64_t>(0, unexplained);
}

}  // namespace

MemoryEstimate CountMemory(const Trainer& trainer, const PlannedGang& planned) {
  MemoryEstimate estimate;
  estimate.weights = Bytes(trainer.model.parameters()) + Bytes(trainer.model.buffers());
  for (const at::Tensor& tensor : trainer.model.TrainedParameters())
    estimate.gradients += static_cast<int64_t>(tensor.nbytes());
  estimate.gradients += BufferBytes(trainer, planned);
  estimate.optimizer = Bytes(trainer.optimizer->state());
  if (trainer.pruner != nullptr) estimate.optimizer += Bytes(trainer.pruner->state());
  if (trainer.ema != nullptr) estimate.average = Bytes(trainer.ema->state());
  estimate.weights += trainer.objective.held_bytes();
  if (!trainer.device.is_cpu()) {
    estimate.data = BatchBytesOnDevice(trainer);
    return estimate;
  }
  const int64_t dataset = trainer.loader.dataset().bytes();
  const int64_t held = estimate.weights + estimate.optimizer + estimate.average + dataset;
  estimate.program = std::max<int64_t>(0, MeasureMemory(trainer.device).now_bytes - held);
  estimate.data = DataBytes(trainer.loader.ahead(), NeedsOf(trainer));
  const std::vector<int64_t> saved = SavedBytes(trainer);
  estimate.checkpoint = std::accumulate(saved.begin(), saved.end(), int64_t{0});
  return estimate;
}

absl::Status MeasureActivations(const Trainer& trainer, MemoryEstimate& estimate,
                                const PlannedGang& planned, const GoesOn& goes_on) {
  const NoTrials no_trials;
  const MemoryUse before = MeasureMemory(trainer.device);
  BatchQueue first(
      [&](uint64_t step) {
        return trainer.loader.BeginTrainBatch(step, static_cast<uint32_t>(trainer.gang.rank()),
                                              static_cast<uint32_t>(trainer.gang.world_size()));
      },
      0, 1, trainer.loader.ahead());
  absl::StatusOr<std::optional<Batch>> loaded = AwaitBatch(trainer, first, goes_on);
  if (!loaded.ok()) return ClassifyData(loaded.status());
  if (!loaded->has_value()) return absl::CancelledError("the first batch is not waited for");
  Batch batch = **std::move(loaded);
  const int64_t wanted = MicroBatchSamples(trainer);
  const DryRun dry = DryRunOf(trainer, trainer.gang.rank());
  const AllocationTrace trace = TracePass(trainer, batch, dry.most);
  if (trainer.device.is_cpu()) {
    // What the kernels loaded and took beside the tensors. malloc may have given back by now what
    // the tensors took, so the peak tells, unless it is older than the pass.
    const MemoryUse after = MeasureMemory(trainer.device);
    const int64_t highest =
        after.peak_bytes > before.peak_bytes ? after.peak_bytes : after.now_bytes;
    const int64_t grown = highest - before.now_bytes;
    estimate.program += std::max<int64_t>(0, grown - trace.PeakBytes());
  }
  const AllocationTrace pass = Scale(
      trace, SomeRankScales(trainer) ? TracePass(trainer, batch, dry.few) : trace, dry, wanted);
  // The gradients of the first micro-batch are there when those of the next come; else they come as
  // activations go.
  estimate.activations = trainer.recipe.accumulate > 1 ? pass.PeakBytesBesideKept()
                                                       : pass.PeakBytes() - pass.KeptBytes();
  // What comes when the activations are gone: the optimizer's step, and masks that grow.
  const auto after = [&estimate](const std::vector<int64_t>& sizes) {
    const int64_t bytes = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    estimate.activations = std::max(estimate.activations, bytes);
  };
  after(OptimizerBytes(trainer));
  const int64_t evaluated = trainer.recipe.evaluation_batch_size;
  after({Scale(TraceEvaluation(trainer, batch, dry.most), TraceEvaluation(trainer, batch, dry.few),
               dry, evaluated)
             .PeakBytes()});
  if (trainer.pruner != nullptr) after(trainer.pruner->GrowingBytes());
  RehearseSingleSamples(trainer, batch);
  const int64_t batch_bytes = static_cast<int64_t>(batch.inputs.nbytes() + batch.targets.nbytes());
  batch = Batch();
  if (trainer.device.is_cpu())
    AddHoles(trainer, BufferBytes(trainer, planned), batch_bytes, pass, estimate);
  return absl::OkStatus();
}

absl::Status Rehearse(const Trainer& trainer, RehearsedMemory& known, MemoryEstimate& estimate,
                      const GoesOn& goes_on) {
  if (known.activations < 0) {
    MUSTER_RETURN_IF_ERROR(MeasureActivations(trainer, estimate, std::nullopt, goes_on));
    known = {estimate.activations, estimate.program, estimate.holes};
    return absl::OkStatus();
  }
  estimate.activations = known.activations;
  estimate.program = known.program;
  estimate.holes = known.holes;
  return absl::OkStatus();
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

std::string MemoryNeed(const MemoryEstimate& estimate, const Recipe& recipe) {
  return absl::StrCat("the run was estimated to need ",
                      HumanBytes(static_cast<double>(estimate.total())), " (", MemoryText(estimate),
                      "): try ", MemoryAdvice(recipe));
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
