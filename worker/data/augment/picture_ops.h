// What augmentation does to where a picture's pixels are: pure functions on floats from 0 to 1.
//
// Used by picture_change.cc alone. They mean what torchvision.transforms.v2 means by the same names
// on tensors: nearest neighbour, black outside.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/data/augment/picture.h"
#include "worker/data/base/random_stream.h"

namespace muster::worker {

// Angles in degrees, clockwise, about the centre; shifts in pixels, to the right and down.
void Rotate(Picture picture, double degrees);
// Rows go to the right, columns down, by these slopes of their distance from the upper left corner,
// which stays: as AutoAugment's authors have it, and torchvision after them.
void ShearFromCorner(Picture picture, double x_slope, double y_slope);
void Translate(Picture picture, int64_t x, int64_t y);
void FlipHorizontally(Picture picture);
void FlipVertically(Picture picture);

// All three require a window inside the picture.
//
// Fills the picture with the window, enlarged or reduced bilinearly (half-pixel centres, no
// antialias).
void CropAndResize(Picture picture, const Window& window);

// `values`: one for each channel, or one for all.
void Erase(Picture picture, const Window& window, const std::vector<float>& values);
// Each value by itself, from 0 to below 1 (Zhong et al. 2020).
void EraseWithNoise(Picture picture, const Window& window, RandomStream random);

}  // namespace muster::worker
