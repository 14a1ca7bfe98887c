#include "worker/train/step/device_feed.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>
#include <utility>

#include "worker/data/model_inputs.h"
#include "worker/train/run/failure.h"

namespace muster::worker {
namespace {

// A tensor's place on the device, with room for as many samples as it saw.
struct Place {
  at::Tensor device;

  // Makes room for the samples of `value` in this type, and says so, unless there is room.
  bool MakeRoom(const at::Tensor& value, c10::ScalarType type, c10::Device on) {
    if (device.defined() && device.scalar_type() == type && device.dim() == value.dim() &&
        device.size(0) >= value.size(0) && device.sizes().slice(1) == value.sizes().slice(1)) {
      return false;
    }
    // A copy wants the order of the host's bytes, a model that of its sizes.
    const at::MemoryFormat order =
        type == value.scalar_type() ? at::MemoryFormat::Preserve : at::MemoryFormat::Contiguous;
    device = at::empty_like(value, at::TensorOptions(type).device(on), order);
    return true;
  }
  // On the current stream. The value, which becomes the one on the device, must fit. Its allocator
  // gives pinned memory to nobody before the copy is over.
  void Copy(at::Tensor& value) const {
    const at::Tensor host = value;
    value = device.narrow(0, 0, host.size(0));
    value.copy_(host, /*non_blocking=*/true);
  }
};

}  // namespace

class DeviceFeed::Slot {
 public:
  explicit Slot(c10::Device device)
      : device_(device),
        copies_(Guard().getStreamFromGlobalPool(device, /*isHighPriority=*/false)),
        copied_(device.type()),
        used_(device.type()) {}

  // All that uses its batch is queued on the current stream by now.
  void NoteUse() { used_.record(Guard().getStream(device_)); }

  void Fill(Batch& batch) {
    const bool pixels = batch.pixels != nullptr;
    bool made = inputs_.MakeRoom(batch.inputs, batch.inputs.scalar_type(), device_);
    made |= targets_.MakeRoom(batch.targets, batch.targets.scalar_type(), device_);
    if (pixels) made |= scaled_.MakeRoom(batch.inputs, at::kFloat, device_);
    if (pixels && !scaler_.has_value()) scaler_.emplace(*batch.pixels, device_);
    // What was queued may still use the memory that the allocator gives anew.
    if (made) NoteUse();
    {
      const c10::StreamGuard guard(copies_);
      used_.block(copies_);
      inputs_.Copy(batch.inputs);
      targets_.Copy(batch.targets);
      if (pixels) Scale(batch);
    }
    copied_.record(copies_);
    copied_.block(Guard().getStream(device_));
  }

 private:
  // On the current stream.
  void Scale(Batch& batch) const {
    const at::Tensor inputs = scaled_.device.narrow(0, 0, batch.inputs.size(0));
    scaler_->Scale(batch.inputs, inputs);
    batch.inputs = inputs;
    batch.pixels = nullptr;
  }
  c10::impl::VirtualGuardImpl Guard() const { return c10::impl::VirtualGuardImpl(device_.type()); }

  const c10::Device device_;
  const c10::Stream copies_;
  c10::Event copied_;
  c10::Event used_;
  Place inputs_;
  Place targets_;
  // Of pixels: what the model takes.
  Place scaled_;
  std::optional<PixelScaler> scaler_;
};

DeviceFeed::DeviceFeed(c10::Device device) : device_(device) {
  if (device_.is_cpu()) return;
  newest_ = std::make_unique<Slot>(device_);
  before_ = std::make_unique<Slot>(device_);
}

DeviceFeed::~DeviceFeed() = default;

absl::StatusOr<Batch> DeviceFeed::Bring(absl::StatusOr<Batch> batch) {
  if (!batch.ok()) return ClassifyData(batch.status());
  if (device_.is_cpu()) return WithModelInputs(*std::move(batch));
  newest_->NoteUse();
  std::swap(newest_, before_);
  newest_->Fill(*batch);
  return batch;
}

}  // namespace muster::worker
