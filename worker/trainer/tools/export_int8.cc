#include "worker/trainer/tools/export_int8.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "worker/data/loader.h"
#include "worker/dist/gang.h"
#include "worker/models/simulated_int8.h"
#include "worker/train/recipe/transfer.h"
#include "worker/train/step/evaluate.h"
#include "worker/trainer/rank/compose.h"

namespace muster::worker {
namespace {

// The trace holds for any batch but one of a single sample (trace.h).
constexpr int64_t kExampleSamples = 2;

NamedTensors WithInt8(const NamedTensors& tensors, const std::vector<Int8Layer>& layers) {
  NamedTensors out;
  for (const Int8Layer& layer : layers) {
    out.push_back({layer.weight, layer.quantized.values.contiguous()});
    out.push_back({layer.weight + ".scale", layer.quantized.scales.contiguous()});
    out.push_back({layer.weight + ".input_scale", at::full({}, layer.input.scale, at::kFloat)});
    out.push_back(
        {layer.weight + ".input_zero_point", at::full({}, layer.input.zero_point, at::kInt)});
  }
  for (const NamedTensor& entry : tensors) {
    const bool rounded = std::any_of(layers.begin(), layers.end(), [&](const Int8Layer& layer) {
      return layer.weight == entry.name;
    });
    if (!rounded) out.push_back(entry);
  }
  return out;
}

}  // namespace

absl::StatusOr<Int8Network> ToInt8(FileSystem& fs, const trainer_spec::JobSpec& spec,
                                   const NamedTensors& tensors, int64_t batches) {
  const at::NoGradGuard no_grad;
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset, BuildDataset(spec, fs));
  const std::unique_ptr<Loader> built =
      BuildLoader(spec, *dataset, /*augmenter=*/nullptr, RankPlace());
  const Loader& loader = *built;
  if (dataset->size(Split::kValidation) < kExampleSamples) {
    return absl::FailedPreconditionError(
        "the run's data has no validation samples, and int8 is calibrated on those");
  }
  Recipe recipe = BuildRecipe(spec, loader.sampler(), /*world_size=*/1);
  recipe.precision = Precision::kFp32;
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                          BuildModel(spec, *dataset, at::Device(at::kCPU)));
  MUSTER_RETURN_IF_ERROR(CopyExactly(tensors, *model));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<Objective> objective,
                          BuildObjective(spec.train, *dataset));
  const std::unique_ptr<Gang> alone = Gang::OfOne();
  const auto score = [&](Model& network) {
    return Evaluate(Split::kTest, {recipe, loader, network, *objective, *alone, at::kCPU});
  };
  MUSTER_ASSIGN_OR_RETURN(const Evaluation before, score(*model));

  const int64_t size = recipe.evaluation_batch_size;
  const auto examples = [&](int64_t samples, int64_t index) -> absl::StatusOr<at::Tensor> {
    MUSTER_ASSIGN_OR_RETURN(const Batch batch,
                            loader.EvalBatch(Split::kValidation, samples, index, 0, 1));
    return batch.inputs;
  };
  MUSTER_ASSIGN_OR_RETURN(const at::Tensor first, examples(kExampleSamples, 0));
  const auto int8 = SimulatedInt8::Make(*model, first);
  Int8Network network;
  const int64_t there = loader.EvalBatches(Split::kValidation, size, 0, 1);
  for (int64_t i = 0; i < std::min(batches, there); ++i) {
    MUSTER_ASSIGN_OR_RETURN(const at::Tensor inputs, examples(size, i));
    int8->Calibrate(inputs);
    network.report.calibration_samples += inputs.size(0);
  }
  int8->Round();
  MUSTER_ASSIGN_OR_RETURN(const Evaluation after, score(*int8));

  network.report.layers = static_cast<int64_t>(int8->layers().size());
  network.report.test_samples = before.samples;
  network.report.accuracy_before = before.accuracy();
  network.report.accuracy_after = after.accuracy();
  network.report.loss_before = before.loss;
  network.report.loss_after = after.loss;
  network.tensors = WithInt8(tensors, int8->layers());
  return network;
}

}  // namespace muster::worker
