// JPEGs of any bytes are spliced and repacked, or left alone: a splice lies in its picture and
// holds its crop, and what was repacked decodes to the same pixels.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/base/rng.h"
#include "worker/data/pictures/jpeg/jpeg_layout.h"
#include "worker/data/pictures/jpeg/jpeg_repack.h"
#include "worker/data/pictures/jpeg/restart_splice.h"
#include "worker/data/pictures/picture_decoder.h"

namespace {

using ::muster::worker::CropBox;
using ::muster::worker::JpegLayout;
using ::muster::worker::PictureDecoder;
using ::muster::worker::PictureLimits;

constexpr PictureLimits kSpliceLimits{.max_pixels = 1 << 16, .max_decoder_bytes = 1 << 24};

[[noreturn]] void Broken(const char* what) {
  ::fprintf(stderr, "BROKEN: %s\n", what);
  ::abort();
}

CropBox SomeCrop(const JpegLayout& layout, uint64_t seed) {
  CropBox crop;
  crop.width = 1 + static_cast<int32_t>(seed % static_cast<uint64_t>(layout.width));
  crop.height = 1 + static_cast<int32_t>((seed >> 16) % static_cast<uint64_t>(layout.height));
  seed = muster::SplitMix64(seed);
  crop.x = static_cast<int32_t>(seed % static_cast<uint64_t>(layout.width - crop.width + 1));
  crop.y =
      static_cast<int32_t>((seed >> 16) % static_cast<uint64_t>(layout.height - crop.height + 1));
  return crop;
}

void SplicePart(absl::string_view jpeg, const JpegLayout& layout, const CropBox& crop) {
  static auto* splicer = new muster::worker::RestartSplicer();
  const absl::string_view small = splicer->Splice(jpeg, layout, crop);
  if (small.empty()) return;
  if (!absl::StartsWith(small, "\xFF\xD8") || !absl::EndsWith(small, "\xFF\xD9")) {
    Broken("a splice that is no whole JPEG");
  }
  if (splicer->origin_x() < 0 || splicer->origin_x() > crop.x || splicer->origin_y() < 0 ||
      splicer->origin_y() > crop.y ||
      splicer->origin_x() + splicer->width() < crop.x + crop.width ||
      splicer->origin_y() + splicer->height() < crop.y + crop.height ||
      splicer->origin_x() + splicer->width() > layout.width ||
      splicer->origin_y() + splicer->height() > layout.height) {
    Broken("a splice that does not hold its crop or is larger than its picture");
  }
  const auto of_small = muster::worker::ReadJpegLayout(small);
  if (!of_small.ok() || of_small->width != splicer->width() ||
      of_small->height != splicer->height()) {
    Broken("a splice of another size than it says");
  }
}

// True when it was decoded.
bool DecodeTo(absl::string_view jpeg, const CropBox& crop, std::vector<uint8_t>& out) {
  static auto* decoder = new PictureDecoder(kSpliceLimits);
  const auto header = muster::worker::ReadPictureHeader(jpeg);
  if (!header.ok()) return false;
  out.assign(9 * 7 * 3, 0);
  return decoder->Decode(jpeg, *header, crop, {9, 7, 3, false, false, out.data()}).ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view jpeg(reinterpret_cast<const char*>(data), size);
  const auto layout = muster::worker::ReadJpegLayout(jpeg);
  if (!layout.ok()) return 0;
  const uint64_t seed = muster::SplitMix64(size * 257 + data[size / 2]);
  const CropBox crop = SomeCrop(*layout, seed);
  SplicePart(jpeg, *layout, crop);
  const auto packed = muster::worker::RepackJpeg(jpeg, kSpliceLimits);
  if (!packed.ok()) return 0;
  std::vector<uint8_t> of_packed, of_file;
  if (!DecodeTo(*packed, crop, of_packed)) Broken("what was repacked cannot be decoded");
  if (DecodeTo(jpeg, crop, of_file) && of_file != of_packed) Broken("a repacked picture changed");
  return 0;
}
