// What augmentation does to one picture: pure functions on floats from 0 to 1, laid out
// [channels, height, width].
//
// Used by Augmenter alone. They mean what torchvision.transforms.v2 means by the same names on
// tensors: nearest neighbour, black outside.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::worker {

struct Picture {
  float* values = nullptr;  // [channels, height, width]; changed in place
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;

  int64_t plane() const { return height * width; }
  int64_t size() const { return channels * height * width; }
};

// Colours. A factor of 1 changes nothing. Pictures that have not 3 channels are their own grey.
void AdjustBrightness(Picture picture, float factor);
void AdjustContrast(Picture picture, float factor);    // about the mean grey
void AdjustSaturation(Picture picture, float factor);  // about the grey picture; 3 channels only
void AdjustSharpness(Picture picture, float factor);   // about a 3x3 blur; the border stays
void Posterize(Picture picture, int bits);             // keeps so many of 8 bits
void Solarize(Picture picture, float threshold);       // inverts what is at or above it
void AutoContrast(Picture picture);                    // each channel spread from 0 to 1
void Equalize(Picture picture);                        // each channel's histogram of 256 levels

// Geometry. Angles in degrees, clockwise, about the centre; shifts in pixels, to the right and
// down.
void Rotate(Picture picture, double degrees);
// Rows go to the right, columns down, by these slopes of their distance from the upper left corner,
// which stays: as AutoAugment's authors have it, and torchvision after them.
void ShearFromCorner(Picture picture, double x_slope, double y_slope);
void Translate(Picture picture, int64_t x, int64_t y);
void FlipHorizontally(Picture picture);

// A window of the picture, in its pixels; may reach outside.
struct Window {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;
};
// Fills the picture with the window, enlarged or reduced bilinearly (half-pixel centres, no
// antialias).
void CropAndResize(Picture picture, const Window& window);
// The same value in each channel's part of the window. Requires a window inside.
void Erase(Picture picture, const Window& window, float value);

}  // namespace muster::worker
