// From pixels to inputs and back: the arithmetic of a PixelScale. Pure; needs nothing
// of torch.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/data/augment/picture_ops.h"
#include "worker/data/base/pixel_scale.h"

namespace muster::worker {

// Fills the picture with pixels from 0 to 1 that are stored as bytes, as many as it has values.
void BytesToPixels(absl::string_view stored, Picture picture);

// The same of pixels [height, width, channels], as decoders give them.
void InterleavedToPixels(const uint8_t* pixels, Picture picture);

// In place: pixels become inputs, and inputs pixels. A scale has one number for each channel.
void PixelsToInputs(const PixelScale& scale, Picture picture);
void InputsToPixels(const PixelScale& scale, Picture picture);

// In place: pixels of many samples, [n, channels, ...] without gaps, become inputs.
void SamplesToInputs(const PixelScale& scale, float* pixels, absl::Span<const int64_t> shape);

}  // namespace muster::worker
