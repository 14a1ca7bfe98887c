#include "worker/models/base/model.h"

#include <ATen/ops/empty.h>

#include <utility>

namespace muster::worker {

ModelOutput Model::ForwardOf(Samples samples, const at::Tensor& inputs) {
  samples_ = std::move(samples);
  ModelOutput output = Forward(inputs);
  samples_.ids.clear();
  samples_.head_apart = false;
  return output;
}

int64_t Model::ParameterCount() const {
  int64_t count = 0;
  for (const ModelTensor& parameter : parameters_) count += parameter.tensor.numel();
  return count;
}

std::vector<at::Tensor> Model::TrainedParameters() const {
  std::vector<at::Tensor> tensors;
  for (const ModelTensor& parameter : parameters_) {
    if (parameter.tensor.requires_grad()) tensors.push_back(parameter.tensor);
  }
  return tensors;
}

at::Tensor Model::AddParameter(std::string name, at::Tensor values, at::Device device) {
  at::Tensor parameter = values.to(device);
  parameter.requires_grad_();
  parameters_.push_back({name, parameter});
  state_.push_back({std::move(name), parameter});
  return parameter;
}

at::Tensor Model::AddBuffer(std::string name, at::Tensor values, at::Device device) {
  at::Tensor buffer = values.to(device);
  buffers_.push_back({name, buffer});
  state_.push_back({std::move(name), buffer});
  return buffer;
}

void Model::JoinBuffers() {
  int64_t total = 0;
  for (const ModelTensor& buffer : buffers_) {
    if (buffer.tensor.is_floating_point()) total += buffer.tensor.numel();
  }
  if (total == 0) return;
  const auto is_float = [](const ModelTensor& buffer) { return buffer.tensor.is_floating_point(); };
  for (const ModelTensor& buffer : buffers_) {
    if (is_float(buffer)) {
      flat_buffers_ = at::empty({total}, buffer.tensor.options());
      break;
    }
  }
  int64_t offset = 0;
  for (const ModelTensor& buffer : buffers_) {
    if (!is_float(buffer)) continue;
    const at::Tensor slice =
        flat_buffers_.narrow(0, offset, buffer.tensor.numel()).view(buffer.tensor.sizes());
    slice.copy_(buffer.tensor);
    // set_data keeps the buffer's own version counter: as plain views of one tensor, the update of
    // one layer's statistics would look to autograd like an in-place change of another's.
    at::Tensor(buffer.tensor).set_data(slice);
    offset += slice.numel();
  }
}

}  // namespace muster::worker
