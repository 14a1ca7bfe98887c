// What a decoder of pictures is asked for. Plain data.
#pragma once

#include <cstdint>

namespace muster::worker {

// A part of a picture, in pixels: of the picture as it is stored, or, where the target asks for it
// upright, of the upright one.
struct CropBox {
  int32_t x = 0;
  int32_t y = 0;
  int32_t width = 0;
  int32_t height = 0;
};

struct PictureTarget {
  int32_t width = 0;
  int32_t height = 0;
  int channels = 3;           // 3 (RGB) or 1 (grey)
  bool flip = false;          // left to right, after all else
  bool upright = false;       // apply the header's orientation
  uint8_t* pixels = nullptr;  // [height, width, channels]; untouched or garbage after an error
};

struct PictureLimits {
  // Of the whole picture, so that no small file asks for hours: 134 million, 11,585 squared.
  int64_t max_pixels = int64_t{1} << 27;
  // Of what one decoder holds while it decodes. A JPEG of one scan needs little; a progressive one
  // 3 to 8 bytes a pixel of the whole picture, an interlaced PNG and a lossless WebP 4.
  int64_t max_decoder_bytes = int64_t{1} << 30;
};

}  // namespace muster::worker
