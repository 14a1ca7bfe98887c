#include "worker/data/pictures/resize/triangle_taps.h"

#include <algorithm>

#include "common/base/check.h"

namespace muster::worker {
namespace {

constexpr int kMostPrecisionBits = 22;  // so that 255 times the sum of the weights fits 31 bits
constexpr int64_t kLargestWeight = 32767;

int64_t FloorDivide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// In steps of 1 / (2 * outputs) units every centre and every distance is a whole number.
struct Geometry {
  Geometry(const ResizeAxis& axis, int32_t outputs)
      : pixel(int64_t{2} * outputs * axis.denominator),
        begin(int64_t{2} * outputs * axis.begin),
        length(axis.length),
        support(std::max(pixel, 2 * axis.length)),
        pixels(axis.pixels) {}

  int64_t Centre(int64_t output) const { return begin + (2 * output + 1) * length; }
  // The pixels whose centres lie in the triangle around `centre`: from First to before End.
  int64_t First(int64_t centre) const {
    return std::max<int64_t>(0, FloorDivide(centre - support - pixel / 2, pixel) + 1);
  }
  int64_t End(int64_t centre) const {
    return std::min(pixels, FloorDivide(centre + support - pixel / 2 - 1, pixel) + 1);
  }
  int64_t Weight(int64_t centre, int64_t at) const {
    const int64_t distance = at * pixel + pixel / 2 - centre;
    return support - (distance < 0 ? -distance : distance);
  }

  int64_t pixel, begin, length, support, pixels;
};

}  // namespace

void MakeTriangleTaps(const ResizeAxis& axis, int32_t outputs, bool reversed, int multiple,
                      TriangleTaps& taps) {
  MUSTER_CHECK(axis.pixels > 0 && axis.length > 0 && outputs > 0,
               "an axis to be resized has a length on both sides");
  const Geometry geometry(axis, outputs);
  taps.first.resize(static_cast<size_t>(outputs));
  int64_t most = 1;
  int bits = kMostPrecisionBits;
  for (int64_t output = 0; output < outputs; ++output) {
    const int64_t centre = geometry.Centre(output);
    const int64_t first = geometry.First(centre), end = geometry.End(centre);
    most = std::max(most, end - first);
    int64_t sum = 0, largest = 0;
    for (int64_t at = first; at < end; ++at) {
      const int64_t weight = geometry.Weight(centre, at);
      sum += weight;
      largest = std::max(largest, weight);
    }
    MUSTER_CHECK(sum > 0, "an output lies on pixels of its box");
    // One is left for the rounding below.
    while ((largest << bits) / sum >= kLargestWeight) --bits;
  }
  taps.precision_bits = bits;
  taps.taps = static_cast<int>((most + multiple - 1) / multiple * multiple);
  taps.weights.assign(static_cast<size_t>(outputs) * static_cast<size_t>(taps.taps), 0);
  for (int64_t output = 0; output < outputs; ++output) {
    const int64_t centre = geometry.Centre(output);
    const int64_t first = geometry.First(centre), end = geometry.End(centre);
    const size_t row = static_cast<size_t>(reversed ? outputs - 1 - output : output);
    // At the end of the source there are fewer than `most`: they begin earlier, with zeros.
    const int64_t begin = std::min(first, axis.pixels - most);
    taps.first[row] = static_cast<int32_t>(begin);
    int16_t* weights = taps.weights.data() + row * static_cast<size_t>(taps.taps);
    int64_t sum = 0;
    for (int64_t at = first; at < end; ++at) sum += geometry.Weight(centre, at);
    // The sums so far are rounded, not the weights: all of them together are 1 exactly.
    int64_t so_far = 0, given = 0;
    for (int64_t at = first; at < end; ++at) {
      so_far += geometry.Weight(centre, at);
      const int64_t rounded = ((so_far << bits) + sum / 2) / sum;
      weights[at - begin] = static_cast<int16_t>(rounded - given);
      given = rounded;
    }
  }
}

}  // namespace muster::worker
