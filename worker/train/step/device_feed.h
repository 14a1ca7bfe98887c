// Brings batches to the rank's device, one after the other.
//
// On a CPU they stay what they are. To a GPU a batch goes from the pinned memory that it was made
// in (LoaderOptions::pinned), on a stream of its own, beside what the device still computes of the
// step before, and into one of two sets of tensors, which keep their addresses: a step that was
// captured as a graph would find its batch there. Pixels are scaled there, on the same stream. The
// host waits for none of it.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/loader.h"

namespace muster::worker {

class DeviceFeed {
 public:
  explicit DeviceFeed(c10::Device device);
  ~DeviceFeed();

  // The batch on the device, with inputs for the model; what kept it from being made gets its class
  // (ClassifyData). On a GPU its tensors are written again by the second call from now, once all
  // work is done that is queued on the current stream before the next call.
  absl::StatusOr<Batch> Bring(absl::StatusOr<Batch> batch);

 private:
  class Slot;

  const c10::Device device_;
  std::unique_ptr<Slot> newest_;  // null on a CPU
  std::unique_ptr<Slot> before_;
};

}  // namespace muster::worker
