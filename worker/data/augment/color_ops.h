// What augmentation does to a picture's colours and to their sharpness: pure functions on floats
// from 0 to 1.
//
// Used by picture_change.cc alone. They mean what torchvision.transforms.v2 means by the same names
// on tensors. Pictures that have not 3 channels are their own grey.
#pragma once

#include <cstdint>

#include "worker/data/augment/picture.h"

namespace muster::worker {

// A factor of 1 changes nothing.
void AdjustBrightness(Picture picture, float factor);
void AdjustContrast(Picture picture, float factor);    // about the mean grey
void AdjustSaturation(Picture picture, float factor);  // about the grey picture; 3 channels only
void AdjustSharpness(Picture picture, float factor);   // about a 3x3 blur; the border stays
void AdjustHue(Picture picture, float turn);  // -0.5 to 0.5 of the colour circle; 3 channels only
void Posterize(Picture picture, int bits);    // keeps so many of 8 bits
void Solarize(Picture picture, float threshold);  // inverts what is at or above it
void AutoContrast(Picture picture);               // each channel spread from 0 to 1
void Equalize(Picture picture);                   // each channel's histogram of 256 levels
void Invert(Picture picture);
void MakeGrey(Picture picture);  // three equal channels

// Gaussian of 2 x radius + 1 pixels a side; the border is reflected. `sigma` in pixels, above 0. A
// picture that has not more pixels than the radius to each side stays as it is.
void Blur(Picture picture, int64_t radius, double sigma);

}  // namespace muster::worker
