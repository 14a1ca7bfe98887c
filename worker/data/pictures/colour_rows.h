// Turns rows of one colour model into another, as PIL's convert() does. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster::worker {

// CMYK as Adobe stores it, 255 for no ink, to RGB and 255.
void CmykToRgbx(const uint8_t* cmyk, size_t pixels, uint8_t* rgbx);

// ITU-R BT.601 luma, in 16 bits of fixed point. `grey` may be `rgbx`.
void RgbxToGrey(const uint8_t* rgbx, size_t pixels, uint8_t* grey);

}  // namespace muster::worker
