// Pictures of any bytes: they are decoded or refused, nothing beyond the target is written, and a
// second decoder finds the same.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/rng.h"
#include "worker/data/pictures/picture_decoder.h"

namespace {

using ::muster::worker::CropBox;
using ::muster::worker::PictureDecoder;
using ::muster::worker::PictureHeader;
using ::muster::worker::PictureLimits;
using ::muster::worker::PictureTarget;

constexpr PictureLimits kFuzzLimits{.max_pixels = 1 << 16, .max_decoder_bytes = 1 << 24};
constexpr size_t kGuardBytes = 64;
constexpr uint8_t kGuard = 0xA5;

[[noreturn]] void Broken(const char* what) {
  ::fprintf(stderr, "BROKEN: %s\n", what);
  ::abort();
}

// A part of one side, by bytes of the seed.
void SomePart(int32_t side, uint64_t seed, int32_t& begin, int32_t& length) {
  length = 1 + static_cast<int32_t>(seed % static_cast<uint64_t>(side));
  begin = static_cast<int32_t>((seed >> 32) % static_cast<uint64_t>(side - length + 1));
}

void DecodePart(PictureDecoder& decoder, absl::string_view bytes, const PictureHeader& header,
                uint64_t seed) {
  PictureTarget target;
  target.width = 1 + static_cast<int32_t>(seed % 17);
  target.height = 1 + static_cast<int32_t>((seed >> 8) % 13);
  target.channels = (seed >> 16) % 2 == 0 ? 3 : 1;
  target.flip = (seed >> 17) % 2 == 0;
  target.upright = (seed >> 18) % 2 == 0;
  const auto size = target.upright ? UprightSize(header)
                                   : muster::worker::PictureSize{header.width, header.height};
  CropBox crop;
  SomePart(size.width, muster::SplitMix64(seed + 1), crop.x, crop.width);
  SomePart(size.height, muster::SplitMix64(seed + 2), crop.y, crop.height);
  const size_t needed = static_cast<size_t>(target.width * target.height * target.channels);
  std::vector<uint8_t> out(needed + kGuardBytes, kGuard);
  target.pixels = out.data();
  const absl::Status status = decoder.Decode(bytes, header, crop, target);
  if (std::any_of(out.begin() + static_cast<ptrdiff_t>(needed), out.end(),
                  [](uint8_t byte) { return byte != kGuard; })) {
    Broken("more is written than the target holds");
  }
  std::vector<uint8_t> again(needed, kGuard);
  target.pixels = again.data();
  PictureDecoder fresh(kFuzzLimits);
  if (fresh.Decode(bytes, header, crop, target).ok() != status.ok()) Broken("a decoder remembers");
  if (status.ok() && !std::equal(again.begin(), again.end(), out.begin())) {
    Broken("two decoders see two pictures");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static PictureDecoder* decoder = new PictureDecoder(kFuzzLimits);
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto header = muster::worker::ReadPictureHeader(bytes);
  if (!header.ok()) return 0;
  if (header->width < 1 || header->height < 1 || header->orientation < 1 ||
      header->orientation > 8 || header->channels < 1 || header->channels > 4) {
    Broken("a header that no picture has");
  }
  const uint64_t seed = muster::SplitMix64(size * 257 + (size == 0 ? 0 : data[size / 2]));
  DecodePart(*decoder, bytes, *header, seed);
  DecodePart(*decoder, bytes, *header, muster::SplitMix64(seed));
  // A header of another picture.
  PictureHeader other = *header;
  other.width = 1 + static_cast<int32_t>(seed % 100);
  other.channels = 1 + static_cast<int>(seed % 4);
  other.progressive = !other.progressive;
  DecodePart(*decoder, bytes, other, seed);
  return 0;
}
