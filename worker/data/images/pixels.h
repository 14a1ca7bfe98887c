// From pixels to inputs and back: the arithmetic of a PixelScale. Pure; needs nothing
// of torch.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

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

// The input that each of the 256 levels of a channel becomes: looked up, with the bits that
// InterleavedToPixels and PixelsToInputs come to.
class InputLevels {
 public:
  explicit InputLevels(const PixelScale& scale);

  // Fills the picture with the inputs of pixels [height, width, channels], as decoders give them.
  void ToInputs(const uint8_t* pixels, Picture picture) const;

 private:
  std::vector<std::array<float, 256>> channels_;
};

// In place: pixels of many samples, [n, channels, ...] without gaps, become inputs.
void SamplesToInputs(const PixelScale& scale, float* pixels, absl::Span<const int64_t> shape);

}  // namespace muster::worker
