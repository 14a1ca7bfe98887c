#include "worker/data/augment/color_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace muster::worker {
namespace {

constexpr int kLevels = 256;

float Clamp(float value) { return std::clamp(value, 0.0f, 1.0f); }

// ITU-R BT.601.
float Grey(const Picture& picture, int64_t pixel) {
  if (picture.channels != 3) return picture.values[pixel];
  const float* v = picture.values + pixel;
  return 0.2989f * v[0] + 0.587f * v[picture.plane()] + 0.114f * v[2 * picture.plane()];
}

float Blend(float value, float other, float factor) {
  return Clamp(factor * value + (1.0f - factor) * other);
}

// std::lround's, which takes halves up, but inline.
int Level(float value) {
  const float scaled = Clamp(value) * (kLevels - 1);
  const int below = static_cast<int>(scaled);
  return below + (scaled - static_cast<float>(below) >= 0.5f);
}

// A hue is a place on the colour circle, in sixths: red 0, yellow 1, green 2, cyan 3, blue 4,
// magenta 5.
constexpr float kSixths = 6;

struct HueAndRange {
  float hue = 0;  // from 0 to below 6; of greys 0
  float least = 0, most = 0;
};

HueAndRange HueOf(float red, float green, float blue) {
  const float most = std::max({red, green, blue}), least = std::min({red, green, blue});
  const float range = most - least;
  if (range <= 0) return {0, least, most};
  if (most == red) {
    const float hue = (green - blue) / range;
    return {hue < 0 ? hue + kSixths : hue, least, most};
  }
  if (most == green) return {(blue - red) / range + 2, least, most};
  return {(red - green) / range + 4, least, most};
}

// How far a channel lies between the least and the most of a colour of this hue; `own` is the hue
// that the channel has by itself.
float ShareOf(float hue, float own) {
  const float away = std::abs(hue - own);
  return Clamp(2 - std::min(away, kSixths - away));
}

// Of places -radius to radius; their sum is 1.
std::vector<float> GaussianWeights(int64_t radius, double sigma) {
  std::vector<double> weights;
  double sum = 0;
  for (int64_t i = -radius; i <= radius; ++i) {
    const double distance = static_cast<double>(i) / sigma;
    weights.push_back(std::exp(-distance * distance / 2));
    sum += weights.back();
  }
  std::vector<float> normalized;
  for (const double weight : weights) normalized.push_back(static_cast<float>(weight / sum));
  return normalized;
}

// Where a place outside [0, count) lies when the line is reflected about its last pixels.
int64_t Reflected(int64_t place, int64_t count) {
  if (place < 0) return -place;
  return place < count ? place : 2 * (count - 1) - place;
}

void AddScaled(const float* values, float weight, int64_t count, float* sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] += weight * values[i];
}

// Of one channel, across its rows.
void BlurRows(const std::vector<float>& weights, int64_t height, int64_t width, float* plane) {
  const auto radius = static_cast<int64_t>(weights.size() / 2);
  std::vector<float> padded(static_cast<size_t>(width + 2 * radius));
  for (int64_t row = 0; row < height; ++row) {
    float* sums = plane + row * width;
    for (int64_t i = -radius; i < width + radius; ++i)
      padded[static_cast<size_t>(i + radius)] = sums[Reflected(i, width)];
    std::fill(sums, sums + width, 0.0f);
    for (size_t k = 0; k < weights.size(); ++k)
      AddScaled(padded.data() + k, weights[k], width, sums);
  }
}

// Of one channel, across its columns.
void BlurColumns(const std::vector<float>& weights, int64_t height, int64_t width, float* plane) {
  const auto radius = static_cast<int64_t>(weights.size() / 2);
  const std::vector<float> old(plane, plane + height * width);
  std::fill(plane, plane + height * width, 0.0f);
  for (int64_t row = 0; row < height; ++row) {
    for (size_t k = 0; k < weights.size(); ++k) {
      const int64_t from = Reflected(row + static_cast<int64_t>(k) - radius, height);
      AddScaled(old.data() + from * width, weights[k], width, plane + row * width);
    }
  }
}

}  // namespace

void AdjustBrightness(Picture picture, float factor) {
  for (int64_t i = 0; i < picture.size(); ++i)
    picture.values[i] = Clamp(picture.values[i] * factor);
}

void AdjustContrast(Picture picture, float factor) {
  double sum = 0;
  for (int64_t i = 0; i < picture.plane(); ++i) sum += Grey(picture, i);
  const float mean = static_cast<float>(sum / static_cast<double>(picture.plane()));
  for (int64_t i = 0; i < picture.size(); ++i)
    picture.values[i] = Blend(picture.values[i], mean, factor);
}

void AdjustSaturation(Picture picture, float factor) {
  if (picture.channels != 3) return;
  for (int64_t i = 0; i < picture.plane(); ++i) {
    const float grey = Grey(picture, i);
    for (int64_t channel = 0; channel < 3; ++channel) {
      float& value = picture.values[channel * picture.plane() + i];
      value = Blend(value, grey, factor);
    }
  }
}

void AdjustSharpness(Picture picture, float factor) {
  if (picture.height <= 2 || picture.width <= 2) return;
  const std::vector<float> old(picture.values, picture.values + picture.size());
  for (int64_t channel = 0; channel < picture.channels; ++channel) {
    for (int64_t row = 1; row + 1 < picture.height; ++row) {
      for (int64_t column = 1; column + 1 < picture.width; ++column) {
        const int64_t at = channel * picture.plane() + row * picture.width + column;
        float sum = 4 * old[static_cast<size_t>(at)];  // the centre counts five times
        for (int64_t dy = -1; dy <= 1; ++dy) {
          for (int64_t dx = -1; dx <= 1; ++dx)
            sum += old[static_cast<size_t>(at + dy * picture.width + dx)];
        }
        picture.values[at] = Blend(old[static_cast<size_t>(at)], sum / 13.0f, factor);
      }
    }
  }
}

void Posterize(Picture picture, int bits) {
  const int mask = ~((1 << (8 - std::clamp(bits, 0, 8))) - 1) & 0xff;
  for (int64_t i = 0; i < picture.size(); ++i) {
    picture.values[i] = static_cast<float>(Level(picture.values[i]) & mask) / (kLevels - 1);
  }
}

void Solarize(Picture picture, float threshold) {
  for (int64_t i = 0; i < picture.size(); ++i) {
    if (picture.values[i] >= threshold) picture.values[i] = 1.0f - picture.values[i];
  }
}

void AutoContrast(Picture picture) {
  for (int64_t channel = 0; channel < picture.channels; ++channel) {
    float* begin = picture.values + channel * picture.plane();
    float* end = begin + picture.plane();
    const auto [least, most] = std::minmax_element(begin, end);
    const float low = *least, range = *most - *least;
    if (range <= 0) continue;
    for (float* value = begin; value != end; ++value) *value = Clamp((*value - low) / range);
  }
}

void Equalize(Picture picture) {
  for (int64_t channel = 0; channel < picture.channels; ++channel) {
    float* begin = picture.values + channel * picture.plane();
    std::array<int64_t, kLevels> histogram{};
    for (int64_t i = 0; i < picture.plane(); ++i) ++histogram[static_cast<size_t>(Level(begin[i]))];
    // Pixels a level, without those of the last level that is used: Pillow's rule.
    int64_t last = 0;
    for (const int64_t count : histogram) last = count > 0 ? count : last;
    const int64_t step = (picture.plane() - last) / (kLevels - 1);
    if (step == 0) continue;
    std::array<float, kLevels> level_of{};
    int64_t below = step / 2;
    for (size_t level = 0; level < kLevels; ++level) {
      level_of[level] =
          static_cast<float>(std::min<int64_t>(below / step, kLevels - 1)) / (kLevels - 1);
      below += histogram[level];
    }
    for (int64_t i = 0; i < picture.plane(); ++i)
      begin[i] = level_of[static_cast<size_t>(Level(begin[i]))];
  }
}

void AdjustHue(Picture picture, float turn) {
  if (picture.channels != 3) return;
  for (int64_t i = 0; i < picture.plane(); ++i) {
    float* red = picture.values + i;
    float *green = red + picture.plane(), *blue = green + picture.plane();
    const HueAndRange old = HueOf(*red, *green, *blue);
    float hue = old.hue + kSixths * turn;
    hue -= kSixths * std::floor(hue / kSixths);
    const float range = old.most - old.least;
    *red = Clamp(old.least + range * ShareOf(hue, 0));
    *green = Clamp(old.least + range * ShareOf(hue, 2));
    *blue = Clamp(old.least + range * ShareOf(hue, 4));
  }
}

void MakeGrey(Picture picture) {
  if (picture.channels != 3) return;
  for (int64_t i = 0; i < picture.plane(); ++i) {
    const float grey = Grey(picture, i);
    for (int64_t channel = 0; channel < 3; ++channel)
      picture.values[channel * picture.plane() + i] = grey;
  }
}

void Invert(Picture picture) {
  for (int64_t i = 0; i < picture.size(); ++i) picture.values[i] = 1.0f - picture.values[i];
}

void Blur(Picture picture, int64_t radius, double sigma) {
  if (radius < 1 || radius >= picture.height || radius >= picture.width) return;
  const std::vector<float> weights = GaussianWeights(radius, sigma);
  for (int64_t channel = 0; channel < picture.channels; ++channel) {
    float* plane = picture.values + channel * picture.plane();
    BlurRows(weights, picture.height, picture.width, plane);
    BlurColumns(weights, picture.height, picture.width, plane);
  }
}

}  // namespace muster::worker
