#include "worker/train/step/device_feed.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "worker/train/run/failure.h"

namespace muster::worker {
namespace {

// A tensor's place on the device, with room for as many samples as it saw.
struct Place {
  at::Tensor device;

  bool Fits(const at::Tensor& value) const {
    return device.defined() && device.dtype() == value.dtype() && device.dim() == value.dim() &&
           device.size(0) >= value.size(0) && device.sizes().slice(1) == value.sizes().slice(1);
  }
  void Make(const at::Tensor& value, c10::Device on) {
    device = at::empty(value.sizes(), at::TensorOptions(value.dtype()).device(on));
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
    bool made = false;
    for (auto& [place, value] : {std::pair(&inputs_, &batch.inputs), {&targets_, &batch.targets}}) {
      if (place->Fits(*value)) continue;
      place->Make(*value, device_);
      made = true;
    }
    // What was queued may still use the memory that the allocator gives anew.
    if (made) NoteUse();
    {
      const c10::StreamGuard guard(copies_);
      used_.block(copies_);
      inputs_.Copy(batch.inputs);
      targets_.Copy(batch.targets);
    }
    copied_.record(copies_);
    copied_.block(Guard().getStream(device_));
  }

 private:
  c10::impl::VirtualGuardImpl Guard() const { return c10::impl::VirtualGuardImpl(device_.type()); }

  const c10::Device device_;
  const c10::Stream copies_;
  c10::Event copied_;
  c10::Event used_;
  Place inputs_;
  Place targets_;
};

DeviceFeed::DeviceFeed(c10::Device device) : device_(device) {
  if (device_.is_cpu()) return;
  newest_ = std::make_unique<Slot>(device_);
  before_ = std::make_unique<Slot>(device_);
}

DeviceFeed::~DeviceFeed() = default;

absl::StatusOr<Batch> DeviceFeed::Bring(absl::StatusOr<Batch> batch) {
  if (!batch.ok()) return ClassifyData(batch.status());
  if (device_.is_cpu()) return batch;
  newest_->NoteUse();
  std::swap(newest_, before_);
  newest_->Fill(*batch);
  return batch;
}

}  // namespace muster::worker
