#include "worker/train/to_device.h"

#include <ATen/core/Tensor.h>

#include <utility>

namespace muster::worker {

Batch ToDevice(Batch batch, c10::Device device) {
  if (device.is_cpu()) return batch;
  for (at::Tensor* tensor : {&batch.inputs, &batch.targets})
    *tensor = tensor->pin_memory().to(device, /*non_blocking=*/true);
  return batch;
}

}  // namespace muster::worker
