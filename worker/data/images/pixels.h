// From pixels to inputs and back: the arithmetic of a PixelScale. Pure.
#pragma once

#include <ATen/core/Tensor.h>

#include "worker/data/base/dataset.h"

namespace muster::worker {

// Pixels from 0 to 1, as floats of their own: out of bytes, or of inputs that are scaled already.
at::Tensor ToPixels(const at::Tensor& stored, const PixelScale& scale);

// In place: pixels [n, channels, ...] become inputs.
void Normalize(at::Tensor& pixels, const PixelScale& scale);

// Bytes become inputs; everything else is one already.
at::Tensor ToInputs(const at::Tensor& stored, const PixelScale& scale);

}  // namespace muster::worker
