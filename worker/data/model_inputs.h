// What the model is given of a batch: its inputs, or what its pixels come to, with the same bits as
// if they had been scaled while the batch was made (images/pixels.h).
//
// Used where a batch comes to its device. Any thread may call.
#pragma once

#include <ATen/core/Tensor.h>

#include "worker/data/base/pixel_scale.h"
#include "worker/data/loader.h"

namespace muster::worker {

// Immutable after its making.
class PixelScaler {
 public:
  // For pixels on this device. Waits for it.
  PixelScaler(const PixelScale& scale, c10::Device device);

  // Fills `inputs`, float32 [n, C, H, W], with what uint8 pixels of the same sizes come to. On a
  // GPU it is queued on the current stream.
  void Scale(const at::Tensor& pixels, const at::Tensor& inputs) const;

 private:
  const at::Tensor full_, mean_, std_;  // 255; one of each channel, [C, 1, 1]
};

// The batch with inputs for the model, on the device where it is.
Batch WithModelInputs(Batch batch);

}  // namespace muster::worker
