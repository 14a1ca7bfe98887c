#include "worker/data/pictures/colour_rows.h"

namespace muster::worker {
namespace {

// a * b / 255, rounded.
uint32_t TimesShare(uint32_t a, uint32_t b) {
  const uint32_t product = a * b + 128;
  return (product + (product >> 8)) >> 8;
}

}  // namespace

void CmykToRgbx(const uint8_t* cmyk, size_t pixels, uint8_t* rgbx) {
  for (size_t i = 0; i < pixels; ++i) {
    const uint32_t white = cmyk[4 * i + 3];
    for (size_t c = 0; c < 3; ++c) {
      const uint32_t ink = 255u - cmyk[4 * i + c];
      rgbx[4 * i + c] = static_cast<uint8_t>(white - TimesShare(ink, white));
    }
    rgbx[4 * i + 3] = 255;
  }
}

void RgbxToGrey(const uint8_t* rgbx, size_t pixels, uint8_t* grey) {
  for (size_t i = 0; i < pixels; ++i) {
    const uint8_t* pixel = rgbx + 4 * i;
    grey[i] = static_cast<uint8_t>(
        (19595u * pixel[0] + 38470u * pixel[1] + 7471u * pixel[2] + 32768u) >> 16);
  }
}

}  // namespace muster::worker
