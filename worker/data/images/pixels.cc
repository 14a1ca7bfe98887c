#include "worker/data/images/pixels.h"

#include <numeric>

namespace muster::worker {

void BytesToPixels(absl::string_view stored, Picture picture) {
  const int64_t size = picture.size();
  for (int64_t i = 0; i < size; ++i)
    picture.values[i] = static_cast<float>(static_cast<uint8_t>(stored[i])) / 255.0f;
}

void InterleavedToPixels(const uint8_t* pixels, Picture picture) {
  const int64_t plane = picture.plane();
  if (picture.channels == 3) {  // with a known stride the loop is vectorised
    float* red = picture.values;
    float* green = red + plane;
    float* blue = green + plane;
    for (int64_t i = 0; i < plane; ++i) {
      red[i] = static_cast<float>(pixels[3 * i]) / 255.0f;
      green[i] = static_cast<float>(pixels[3 * i + 1]) / 255.0f;
      blue[i] = static_cast<float>(pixels[3 * i + 2]) / 255.0f;
    }
    return;
  }
  for (int64_t channel = 0; channel < picture.channels; ++channel) {
    float* values = picture.values + channel * plane;
    for (int64_t i = 0; i < plane; ++i)
      values[i] = static_cast<float>(pixels[i * picture.channels + channel]) / 255.0f;
  }
}

void PixelsToInputs(const PixelScale& scale, Picture picture) {
  const int64_t plane = picture.plane();
  for (int64_t channel = 0; channel < picture.channels; ++channel) {
    float* values = picture.values + channel * plane;
    const float mean = scale.mean[channel], std = scale.std[channel];
    for (int64_t i = 0; i < plane; ++i) values[i] = (values[i] - mean) / std;
  }
}

InputLevels::InputLevels(const PixelScale& scale) : channels_(scale.mean.size()) {
  std::array<uint8_t, 256> levels;
  std::iota(levels.begin(), levels.end(), uint8_t{0});
  for (size_t channel = 0; channel < channels_.size(); ++channel) {
    const Picture picture{channels_[channel].data(), 1, 1, 256};
    InterleavedToPixels(levels.data(), picture);
    PixelsToInputs({{scale.mean[channel]}, {scale.std[channel]}}, picture);
  }
}

void InputLevels::ToInputs(const uint8_t* pixels, Picture picture) const {
  const int64_t plane = picture.plane();
  for (int64_t channel = 0; channel < picture.channels; ++channel) {
    const std::array<float, 256>& levels = channels_[static_cast<size_t>(channel)];
    float* inputs = picture.values + channel * plane;
    for (int64_t i = 0; i < plane; ++i) inputs[i] = levels[pixels[i * picture.channels + channel]];
  }
}

void InputsToPixels(const PixelScale& scale, Picture picture) {
  const int64_t plane = picture.plane();
  for (int64_t channel = 0; channel < picture.channels; ++channel) {
    float* values = picture.values + channel * plane;
    const float mean = scale.mean[channel], std = scale.std[channel];
    for (int64_t i = 0; i < plane; ++i) values[i] = values[i] * std + mean;
  }
}

void SamplesToInputs(const PixelScale& scale, float* pixels, absl::Span<const int64_t> shape) {
  int64_t plane = 1;
  for (size_t axis = 2; axis < shape.size(); ++axis) plane *= shape[axis];
  for (int64_t sample = 0; sample < shape[0]; ++sample)
    PixelsToInputs(scale, {pixels + sample * shape[1] * plane, shape[1], plane, 1});
}

}  // namespace muster::worker
