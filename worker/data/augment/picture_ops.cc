#include "worker/data/augment/picture_ops.h"

#include <algorithm>
#include <cmath>

namespace muster::worker {
namespace {

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

template <typename Function>
void ForEachRow(Picture picture, int64_t channel, const Window& window, Function change) {
  float* plane = picture.values + channel * picture.plane();
  for (int64_t row = window.top; row < window.top + window.height; ++row) {
    float* begin = plane + row * picture.width + window.left;
    change(begin, begin + window.width);
  }
}

double Radians(double degrees) { return degrees * std::acos(-1.0) / 180.0; }

}  // namespace

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

void FlipVertically(Picture picture) {
  for (int64_t channel = 0; channel < picture.channels; ++channel) {
    float* rows = picture.values + channel * picture.plane();
    for (int64_t row = 0; row < picture.height / 2; ++row) {
      std::swap_ranges(rows + row * picture.width, rows + (row + 1) * picture.width,
                       rows + (picture.height - 1 - row) * picture.width);
    }
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

void Erase(Picture picture, const Window& window, const std::vector<float>& values) {
  for (int64_t channel = 0; channel < picture.channels; ++channel) {
    const float value = values[values.size() == 1 ? 0 : static_cast<size_t>(channel)];
    ForEachRow(picture, channel, window,
               [&](float* begin, float* end) { std::fill(begin, end, value); });
  }
}

void EraseWithNoise(Picture picture, const Window& window, RandomStream random) {
  for (int64_t channel = 0; channel < picture.channels; ++channel) {
    ForEachRow(picture, channel, window, [&](float* begin, float* end) {
      for (float* value = begin; value != end; ++value)
        *value = static_cast<float>(random.Bits() >> 40) * 0x1.0p-24f;
    });
  }
}

}  // namespace muster::worker
