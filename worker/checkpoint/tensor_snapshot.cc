#include "worker/checkpoint/tensor_snapshot.h"

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "worker/checkpoint/tensor_types.h"

namespace muster::worker {
namespace {

bool FitsBuffer(const at::Tensor& buffer, const at::Tensor& tensor) {
  return buffer.defined() && buffer.sizes() == tensor.sizes() &&
         buffer.scalar_type() == tensor.scalar_type() && buffer.is_pinned() == tensor.is_cuda();
}

// Pinned for a CUDA source: the copy then runs at the bus's speed.
at::Tensor NewBuffer(const at::Tensor& tensor) {
  return at::empty(tensor.sizes(),
                   at::TensorOptions(tensor.scalar_type()).pinned_memory(tensor.is_cuda()));
}

}  // namespace

void TensorSnapshot::Copy(const NamedTensors& tensors) {
  const c10::NoGradGuard no_grad;
  copies_.resize(tensors.size());
  std::optional<c10::Device> device;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i].tensor;
    MUSTER_CHECK(ToTensorType(tensor.scalar_type()).has_value(),
                 absl::StrCat("tensor ", tensors[i].name, " has a type that no checkpoint holds"));
    copies_[i].name = tensors[i].name;
    if (!FitsBuffer(copies_[i].tensor, tensor)) copies_[i].tensor = NewBuffer(tensor);
    if (!tensor.is_cpu()) device = tensor.device();
    copies_[i].tensor.copy_(tensor, /*non_blocking=*/true);
  }
  // Once for all of them: when Copy returns, the caller may change the sources.
  if (!device.has_value()) return;
  c10::Event copied(device->type());
  copied.record(c10::impl::VirtualGuardImpl(device->type()).getStream(*device));
  copied.synchronize();
}

std::vector<TensorBytes> TensorSnapshot::Bytes() const {
  std::vector<TensorBytes> bytes;
  bytes.reserve(copies_.size());
  for (const NamedTensor& copy : copies_) {
    bytes.push_back({copy.name, *ToTensorType(copy.tensor.scalar_type()), copy.tensor.sizes().vec(),
                     absl::string_view(static_cast<const char*>(copy.tensor.const_data_ptr()),
                                       copy.tensor.nbytes())});
  }
  return bytes;
}

}  // namespace muster::worker
