#include "worker/data/images/picture_ops.h"

#include <algorithm>
#include <array>
#include <cmath>

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

int Level(float value) { return static_cast<int>(std::lround(Clamp(value) * (kLevels - 1))); }

// Each pixel of the result at (x, y) about the centre is the old one at (a x + b y + c, d x + e y +
// f): the inverse of the transformation that is seen.
struct InverseAffine {
  double a = 1, b = 0, c = 0;
  double d = 0, e = 1, f = 0;
};

void Warp(Picture picture, const InverseAffine& m) {
  const std::vector<float> old(picture.values, picture.values + picture.size());
  const double center_x = (static_cast<double>(picture.width) - 1) / 2;
  const double center_y = (static_cast<double>(picture.height) - 1) / 2;
  for (int64_t row = 0; row < picture.height; ++row) {
    for (int64_t column = 0; column < picture.width; ++column) {
      const double x = static_cast<double>(column) - center_x;
      const double y = static_cast<double>(row) - center_y;
      const int64_t from_x = std::lrint(m.a * x + m.b * y + m.c + center_x);
      const int64_t from_y = std::lrint(m.d * x + m.e * y + m.f + center_y);
      const bool inside =
          from_x >= 0 && from_x < picture.width && from_y >= 0 && from_y < picture.height;
      for (int64_t channel = 0; channel < picture.channels; ++channel) {
        const int64_t plane = channel * picture.plane();
        picture.values[plane + row * picture.width + column] =
            inside ? old[static_cast<size_t>(plane + from_y * picture.width + from_x)] : 0.0f;
      }
    }
  }
}

double Radians(double degrees) { return degrees * std::acos(-1.0) / 180.0; }

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

void Rotate(Picture picture, double degrees) {
  const double sine = std::sin(Radians(degrees)), cosine = std::cos(Radians(degrees));
  Warp(picture, {cosine, sine, 0, -sine, cosine, 0});
}

void ShearFromCorner(Picture picture, double x_slope, double y_slope) {
  // x' = x + sx y, y' = y + sy x from the corner, which lies half the picture from its centre.
  const double determinant = 1 - x_slope * y_slope;
  const double x = static_cast<double>(picture.width) / 2;
  const double y = static_cast<double>(picture.height) / 2;
  const double a = 1 / determinant, b = -x_slope / determinant;
  const double d = -y_slope / determinant, e = 1 / determinant;
  Warp(picture, {a, b, a * x + b * y - x, d, e, d * x + e * y - y});
}

void Translate(Picture picture, int64_t x, int64_t y) {
  Warp(picture, {1, 0, -static_cast<double>(x), 0, 1, -static_cast<double>(y)});
}

void FlipHorizontally(Picture picture) {
  for (int64_t row = 0; row < picture.channels * picture.height; ++row) {
    std::reverse(picture.values + row * picture.width, picture.values + (row + 1) * picture.width);
  }
}

void CropAndResize(Picture picture, const Window& window) {
  const std::vector<float> old(picture.values, picture.values + picture.size());
  const double scale_y = static_cast<double>(window.height) / static_cast<double>(picture.height);
  const double scale_x = static_cast<double>(window.width) / static_cast<double>(picture.width);
  const auto old_at = [&](int64_t plane, int64_t y, int64_t x) {
    if (y < 0 || y >= picture.height || x < 0 || x >= picture.width) return 0.0f;
    return old[static_cast<size_t>(plane + y * picture.width + x)];
  };
  // Within the window the border repeats, as in a picture of its own; outside the old picture it
  // is black.
  const auto place = [](double at, int64_t begin, int64_t extent) {
    return std::clamp(at, 0.0, static_cast<double>(extent - 1)) + static_cast<double>(begin);
  };
  for (int64_t row = 0; row < picture.height; ++row) {
    const double y =
        place((static_cast<double>(row) + 0.5) * scale_y - 0.5, window.top, window.height);
    const int64_t y0 = static_cast<int64_t>(std::floor(y));
    const int64_t y1 = std::min(y0 + 1, window.top + window.height - 1);
    const float wy = static_cast<float>(y - static_cast<double>(y0));
    for (int64_t column = 0; column < picture.width; ++column) {
      const double x =
          place((static_cast<double>(column) + 0.5) * scale_x - 0.5, window.left, window.width);
      const int64_t x0 = static_cast<int64_t>(std::floor(x));
      const int64_t x1 = std::min(x0 + 1, window.left + window.width - 1);
      const float wx = static_cast<float>(x - static_cast<double>(x0));
      for (int64_t channel = 0; channel < picture.channels; ++channel) {
        const int64_t plane = channel * picture.plane();
        const float upper = old_at(plane, y0, x0) * (1 - wx) + old_at(plane, y0, x1) * wx;
        const float lower = old_at(plane, y1, x0) * (1 - wx) + old_at(plane, y1, x1) * wx;
        picture.values[plane + row * picture.width + column] = upper * (1 - wy) + lower * wy;
      }
    }
  }
}

void Erase(Picture picture, const Window& window, float value) {
  for (int64_t channel = 0; channel < picture.channels; ++channel) {
    for (int64_t row = window.top; row < window.top + window.height; ++row) {
      float* begin = picture.values + channel * picture.plane() + row * picture.width + window.left;
      std::fill(begin, begin + window.width, value);
    }
  }
}

}  // namespace muster::worker
