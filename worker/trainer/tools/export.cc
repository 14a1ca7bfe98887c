#include "worker/trainer/tools/export.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/ckpt/safetensors.h"
#include "common/ckpt/verifier.h"
#include "nlohmann/json.hpp"
#include "worker/checkpoint/restore.h"
#include "worker/checkpoint/tensor_types.h"
#include "worker/models/base/trace.h"
#include "worker/models/mae_to_vit.h"
#include "worker/train/recipe/ema.h"
#include "worker/train/recipe/transfer.h"
#include "worker/train/run/run_state.h"
#include "worker/train/step/torch_guard.h"
#include "worker/trainer/data/data_recipe.h"
#include "worker/trainer/rank/compose.h"
#include "worker/trainer/rank/foreign_code.h"
#include "worker/trainer/rank/rank_program.h"
#include "worker/trainer/tools/model_report.h"

namespace muster::worker {
namespace {

constexpr double kTolerance = 1e-4;  // of outputs that are said to be equal
// Any two but 1, which is a shape of its own to some operators.
constexpr int64_t kTracedBatch = 2, kOtherBatch = 5;
constexpr uint64_t kExampleSeed = 1;

struct Source {
  trainer_spec::JobSpec spec;
  int64_t classes = 0;
  int64_t step = 0;
  NamedTensors tensors;  // of the model alone
  bool averaged = false;
};

absl::StatusOr<Source> Read(FileSystem& fs, const ExportRequest& request) {
  const std::string& folder = request.checkpoint;
  const absl::StatusOr<bool> there = fs.Exists(absl::StrCat(folder, "/", kManifestFile));
  if (there.ok() && !*there) {
    return absl::NotFoundError(
        absl::StrCat(folder, ": there is no checkpoint on this machine: its folder would hold a ",
                     kManifestFile));
  }
  MUSTER_RETURN_IF_ERROR(VerifyCheckpoint(fs, folder, request.manifest_sha256));
  MUSTER_ASSIGN_OR_RETURN(const std::string json, LoadStateJson(fs, folder));
  MUSTER_ASSIGN_OR_RETURN(const DecodedRunState state, DecodeRunState(json));
  Source source;
  MUSTER_ASSIGN_OR_RETURN(source.spec, trainer_spec::DecodeJobSpec(state.identity.spec_json));
  source.classes = state.identity.classes;
  source.step = state.state.step;
  MUSTER_ASSIGN_OR_RETURN(NamedTensors all, ReadTensors(fs, absl::StrCat(folder, "/", kModelFile)));
  const size_t count = all.size();
  source.tensors = ModelTensors(std::move(all), request.averaged);
  source.averaged = request.averaged && source.tensors.size() < count;
  return source;
}

absl::StatusOr<NamedTensors> EncoderOf(const NamedTensors& mae) {
  std::vector<ModelTensor> state;
  for (const NamedTensor& entry : mae) state.push_back({entry.name, entry.tensor});
  if (!IsMae(state)) {
    return absl::FailedPreconditionError(
        "the checkpoint is not of a masked autoencoder, so it has no encoder to export alone");
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<ModelTensor> vit, MaeEncoderToVit(state));
  NamedTensors tensors;
  for (const ModelTensor& entry : vit) tensors.push_back({entry.name, entry.tensor.contiguous()});
  return tensors;
}

// The tensors are contiguous, of types that such a file holds.
absl::StatusOr<std::string> ToSafetensors(const NamedTensors& tensors) {
  std::vector<TensorBytes> entries;
  for (const NamedTensor& entry : tensors) {
    const at::Tensor& tensor = entry.tensor;
    entries.push_back({entry.name, *ToTensorType(tensor.scalar_type()), tensor.sizes().vec(),
                       absl::string_view(static_cast<const char*>(tensor.const_data_ptr()),
                                         static_cast<size_t>(tensor.nbytes()))});
  }
  std::string bytes;
  MUSTER_RETURN_IF_ERROR(WriteSafetensors(entries, [&bytes](absl::string_view piece) {
    bytes.append(piece.data(), piece.size());
    return absl::OkStatus();
  }));
  return bytes;
}

absl::Status CheckTraceable(const trainer_spec::JobSpec& spec, bool allow_plugins) {
  const trainer_spec::Model& model = spec.train.model;
  if (model.mae.has_value()) {
    return absl::FailedPreconditionError(
        "a masked autoencoder hides patches at random, which no trace can hold: export it as "
        "safetensors, whole or with --encoder");
  }
  if (model.torchscript.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the network is a TorchScript file already, ", model.torchscript->path,
        ": export the weights as safetensors, and load them into it with load_state_dict"));
  }
  return MayRunForeignCode(spec, allow_plugins, kSayAllowCommands);
}

absl::StatusOr<ModelContext> ContextFor(FileSystem& fs, const Source& source,
                                        const ExportRequest& request) {
  ModelContext context;
  if (request.shape.empty()) {
    auto of_data = SampleContext(source.spec, fs);
    if (!of_data.ok()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the shape of a sample comes from the run's data, which cannot be read here (",
          of_data.status().message(), "): say it with --shape"));
    }
    context = *std::move(of_data);
  } else {
    context.input_shape = request.shape;
  }
  context.classes = source.classes;
  return context;
}

at::Tensor Samples(const ModelContext& context, bool tokens, int64_t count) {
  std::vector<int64_t> shape = {count};
  shape.insert(shape.end(), context.input_shape.begin(), context.input_shape.end());
  at::Generator generator = at::detail::createCPUGenerator(kExampleSeed);
  if (tokens) return at::randint(context.classes, shape, generator, at::TensorOptions(at::kLong));
  return at::randn(shape, generator, at::TensorOptions(at::kFloat));
}

// The file is tried before it is believed.
absl::StatusOr<double> DifferenceOf(const std::string& bytes, Model& model,
                                    const at::Tensor& inputs) {
  std::istringstream file(bytes);
  torch::jit::Module module = torch::jit::load(file);
  const at::Tensor theirs = module.forward({inputs}).toTensor();
  const at::Tensor ours = model.Forward(inputs).values;
  if (theirs.sizes() == ours.sizes() && at::allclose(theirs, ours, kTolerance, kTolerance)) {
    return ours.numel() == 0 ? 0 : theirs.sub(ours).abs().max().item<double>();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the network's trace gives other outputs than the network for a batch of ", inputs.size(0),
      ": what it computes depends on its input or on chance; export it "
      "as safetensors"));
}

absl::StatusOr<std::string> ToTorchScript(FileSystem& fs, const Source& source,
                                          const ExportRequest& request, ExportResult& result) {
  MUSTER_RETURN_IF_ERROR(CheckTraceable(source.spec, request.allow_plugins));
  MUSTER_ASSIGN_OR_RETURN(const ModelContext context, ContextFor(fs, source, request));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, BuildModel(source.spec, context));
  const at::NoGradGuard no_grad;
  MUSTER_RETURN_IF_ERROR(CopyExactly(source.tensors, *model));
  const bool tokens = HasTokens(source.spec.train.data);
  std::ostringstream file;
  TraceModel(*model, Samples(context, tokens, kTracedBatch)).save(file);
  std::string bytes = std::move(file).str();
  for (const int64_t batch : {kTracedBatch, kOtherBatch}) {
    MUSTER_ASSIGN_OR_RETURN(const double difference,
                            DifferenceOf(bytes, *model, Samples(context, tokens, batch)));
    result.largest_difference = std::max(result.largest_difference, difference);
  }
  result.sample_shape = context.input_shape;
  return bytes;
}

absl::Status CheckRequest(FileSystem& fs, const ExportRequest& request) {
  if (request.encoder && request.format != ExportFormat::kSafetensors) {
    return absl::InvalidArgumentError("--encoder is only for the format safetensors");
  }
  MUSTER_ASSIGN_OR_RETURN(const bool there, fs.Exists(request.out));
  if (there && !request.overwrite) {
    return absl::AlreadyExistsError(
        absl::StrCat(request.out, " is there already: choose another --out, or say --force"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExportResult> Run(FileSystem& fs, const ExportRequest& request) {
  MUSTER_RETURN_IF_ERROR(CheckRequest(fs, request));
  MUSTER_ASSIGN_OR_RETURN(Source source, Read(fs, request));
  ConfigureTorch(source.spec);
  ExportResult result;
  std::string bytes;
  if (request.encoder) {
    MUSTER_ASSIGN_OR_RETURN(source.tensors, EncoderOf(source.tensors));
  }
  if (request.format == ExportFormat::kInt8) {
    MUSTER_RETURN_IF_ERROR(CheckTraceable(source.spec, request.allow_plugins));
    MUSTER_ASSIGN_OR_RETURN(Int8Network network,
                            ToInt8(fs, source.spec, source.tensors, request.calibration_batches));
    source.tensors = std::move(network.tensors);
    result.int8 = network.report;
  }
  if (request.format != ExportFormat::kTorchScript) {
    MUSTER_ASSIGN_OR_RETURN(bytes, ToSafetensors(source.tensors));
  } else {
    MUSTER_ASSIGN_OR_RETURN(bytes, ToTorchScript(fs, source, request, result));
  }
  MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs, request.out, bytes));
  result.file = request.out;
  result.format = request.format;
  result.job_name = source.spec.name;
  result.step = source.step;
  result.averaged = source.averaged;
  result.bytes = static_cast<int64_t>(bytes.size());
  result.tensors = static_cast<int64_t>(source.tensors.size());
  for (const NamedTensor& entry : source.tensors) result.numbers += entry.tensor.numel();
  return result;
}

const char* NameOf(ExportFormat format) {
  switch (format) {
    case ExportFormat::kSafetensors:
      return "safetensors";
    case ExportFormat::kTorchScript:
      return "torchscript";
    case ExportFormat::kInt8:
      return "int8";
  }
  return "";
}

}  // namespace

absl::StatusOr<ExportResult> Export(FileSystem& fs, const ExportRequest& request) {
  return TorchGuardOr([&] { return Run(fs, request); });
}

std::string ExportText(const ExportResult& result) {
  std::string text = absl::StrFormat(
      "%s: %s of %s at step %d, %s weights: %d tensors, %s numbers, %s\n", result.file,
      NameOf(result.format), result.job_name, result.step, result.averaged ? "averaged" : "plain",
      result.tensors, CountText(result.numbers), BytesText(result.bytes));
  if (result.format == ExportFormat::kTorchScript) {
    absl::StrAppendFormat(&text,
                          "takes any batch of samples [%s]; largest difference of its outputs "
                          "from the network's own: %.2g\n",
                          absl::StrJoin(result.sample_shape, ", "), result.largest_difference);
  }
  if (result.format == ExportFormat::kInt8) {
    const Int8Report& int8 = result.int8;
    absl::StrAppendFormat(
        &text,
        "%d layers rounded, after %d validation samples; simulated int8 on %d test samples: "
        "accuracy %.4f, was %.4f in fp32; loss %.4f, was %.4f\n",
        int8.layers, int8.calibration_samples, int8.test_samples, int8.accuracy_after,
        int8.accuracy_before, int8.loss_after, int8.loss_before);
  }
  return text;
}

std::string ExportJson(const ExportResult& result) {
  nlohmann::ordered_json json = {{"name", result.file},         {"format", NameOf(result.format)},
                                 {"job", result.job_name},      {"step", result.step},
                                 {"averaged", result.averaged}, {"tensors", result.tensors},
                                 {"numbers", result.numbers},   {"bytes", result.bytes}};
  if (result.format == ExportFormat::kTorchScript) {
    json["sample_shape"] = result.sample_shape;
    json["largest_difference"] = result.largest_difference;
  }
  if (result.format == ExportFormat::kInt8) {
    const Int8Report& int8 = result.int8;
    json["simulated_int8"] = {{"layers", int8.layers},
                              {"calibration_samples", int8.calibration_samples},
                              {"test_samples", int8.test_samples},
                              {"accuracy_before", int8.accuracy_before},
                              {"accuracy_after", int8.accuracy_after},
                              {"loss_before", int8.loss_before},
                              {"loss_after", int8.loss_after}};
  }
  return json.dump() + "\n";
}

}  // namespace muster::worker
