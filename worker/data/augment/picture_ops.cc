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

// A place between two pixels of a line, and how much the second counts.
struct Between {
  int64_t first = 0, second = 0;
  float weight = 0;

  float Of(const float* line) const { return line[first] * (1 - weight) + line[second] * weight; }
};

// Where each of `count` pixels comes from when [begin, begin + extent) is stretched over them. Its
// border repeats, as in a picture of its own.
std::vector<Between> PlacesBetween(int64_t begin, int64_t extent, int64_t count) {
  const double scale = static_cast<double>(extent) / static_cast<double>(count);
  std::vector<Between> places;
  places.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const double within = (static_cast<double>(i) + 0.5) * scale - 0.5;
    const double place =
        std::clamp(within, 0.0, static_cast<double>(extent - 1)) + static_cast<double>(begin);
    const auto first = static_cast<int64_t>(std::floor(place));
    places.push_back({first, std::min(first + 1, begin + extent - 1),
                      static_cast<float>(place - static_cast<double>(first))});
  }
  return places;
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
  const std::vector<Between> rows = PlacesBetween(window.top, window.height, picture.height);
  const std::vector<Between> columns = PlacesBetween(window.left, window.width, picture.width);
  float* value = picture.values;
  for (int64_t channel = 0; channel < picture.channels; ++channel) {
    const float* plane = old.data() + channel * picture.plane();
    for (const Between& row : rows) {
      const float* upper = plane + row.first * picture.width;
      const float* lower = plane + row.second * picture.width;
      for (const Between& column : columns) {
        const float above = column.Of(upper), below = column.Of(lower);
        *value++ = above * (1 - row.weight) + below * row.weight;
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
