// Makes pictures for tests and benchmarks with the codecs' own encoders, and decodes them in full
// without any of Muster's decoders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster::testing {

// 8 bits, [height, width, channels].
struct Pixels {
  int width = 0;
  int height = 0;
  int channels = 3;
  std::vector<uint8_t> values;

  const uint8_t* at(int x, int y) const {
    return values.data() +
           (static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)) *
               static_cast<size_t>(channels);
  }
};

// Waves of several lengths, edges and noise, much as in a photograph. The same for one seed.
Pixels MakePhoto(int width, int height, int channels, uint64_t seed, int noise = 24);

struct JpegOptions {
  int quality = 90;
  // Of luma against chroma; the first component's.
  int across = 2;
  int down = 2;
  bool progressive = false;
  bool a_scan_each = false;  // progressive, with a scan for each coefficient: 190 of three channels
  bool arithmetic = false;
  bool adobe_ycck = false;        // of four channels: YCCK, else CMYK
  unsigned restart_interval = 0;  // in MCUs
  int orientation = 0;            // 0: no EXIF
};
// 1 (grey), 3 (RGB) or 4 channels (CMYK, as it is to be stored).
std::string EncodeJpeg(const Pixels& pixels, const JpegOptions& options = {});
// Whole, as libjpeg does it by default: 1, 3 or 4 (CMYK) channels.
Pixels DecodeJpeg(absl::string_view jpeg);

// A TIFF structure whose only entry is the orientation.
std::string ExifOf(int orientation, bool little_endian);

struct PngOptions {
  int colour_type = 2;  // 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGB and alpha
  int bit_depth = 8;
  bool interlaced = false;
  bool transparency = false;  // a tRNS chunk
};
// From samples of `bit_depth` bits: [height, width, channels of the colour type], 0 to 2^depth - 1.
std::string EncodePng(int width, int height, const std::vector<uint16_t>& samples,
                      const std::vector<uint8_t>& palette, const PngOptions& options);

// 3 or 4 channels.
std::string EncodeWebp(const Pixels& pixels, float quality, bool lossless);
// Whole, RGB.
Pixels DecodeWebp(absl::string_view webp);

}  // namespace muster::testing
