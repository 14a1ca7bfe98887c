#include "worker/trainer/tools/forward.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/ckpt/safetensors.h"
#include "trainer_spec/job_spec.h"
#include "worker/checkpoint/named_tensor.h"
#include "worker/checkpoint/restore.h"
#include "worker/checkpoint/tensor_types.h"
#include "worker/train/step/torch_guard.h"
#include "worker/trainer/rank/compose.h"
#include "worker/trainer/rank/rank_program.h"

namespace muster::worker {
namespace {

constexpr uint64_t kMaxSpecBytes = 16u << 20;
constexpr char kInputs[] = "inputs";

absl::StatusOr<at::Tensor> ReadInputs(FileSystem& fs, const std::string& file) {
  MUSTER_ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::Open(fs, file));
  const auto entry = reader.tensors().find(kInputs);
  if (entry == reader.tensors().end() || entry->second.shape.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, " must hold a tensor `", kInputs, "` of shape [samples, ...]"));
  }
  const at::Tensor inputs = at::empty(entry->second.shape, ToScalarType(entry->second.type));
  MUSTER_RETURN_IF_ERROR(reader.Read(kInputs, static_cast<char*>(inputs.mutable_data_ptr())));
  return inputs;
}

absl::Status WriteOutput(FileSystem& fs, const std::string& file, const ModelOutput& output) {
  std::vector<TensorBytes> tensors;
  const at::Tensor values = output.values.to(at::kFloat).contiguous();
  const at::Tensor mask = output.mask.defined() ? output.mask.contiguous() : output.mask;
  const auto add = [&](const char* name, const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    tensors.push_back({name, TensorType::kF32, tensor.sizes().vec(),
                       absl::string_view(static_cast<const char*>(tensor.const_data_ptr()),
                                         static_cast<size_t>(tensor.nbytes()))});
  };
  add("values", values);
  add("mask", mask);
  std::string bytes;
  MUSTER_RETURN_IF_ERROR(WriteSafetensors(tensors, [&](absl::string_view piece) {
    bytes.append(piece.data(), piece.size());
    return absl::OkStatus();
  }));
  return WriteFileAtomically(fs, file, bytes);
}

absl::Status Run(FileSystem& fs, const ForwardRequest& request) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, fs.ReadFile(request.spec, kMaxSpecBytes));
  MUSTER_ASSIGN_OR_RETURN(const trainer_spec::JobSpec spec, trainer_spec::DecodeJobSpec(text));
  ConfigureTorch(spec);
  MUSTER_ASSIGN_OR_RETURN(const at::Tensor inputs, ReadInputs(fs, request.inputs));
  ModelContext context;
  context.input_shape = inputs.sizes().slice(1).vec();
  context.classes = request.classes;
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, BuildModel(spec, context));
  if (!request.weights.empty()) {
    NamedTensors state;
    for (const ModelTensor& entry : model->state()) state.push_back({entry.name, entry.tensor});
    MUSTER_RETURN_IF_ERROR(LoadTensors(fs, request.weights, state));
  }
  const at::NoGradGuard no_grad;
  model->SetTraining(false);
  return WriteOutput(fs, request.out, model->Forward(inputs));
}

}  // namespace

absl::Status Forward(FileSystem& fs, const ForwardRequest& request) {
  return TorchGuard([&] { return Run(fs, request); });
}

}  // namespace muster::worker
