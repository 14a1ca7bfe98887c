// What a picture becomes in a shard: repacked without loss, shrunk, or as it was.
//
// Used by Packer. One per thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/pictures/picture_decoder.h"

namespace muster::worker {

enum class Packing {
  kRepacked,    // a JPEG whose pixels are the same
  kShrunk,      // decoded, made smaller, and encoded as a JPEG
  kKept,        // no JPEG, or not asked for
  kNotRepacked  // a damaged JPEG, or one of a kind that is not repacked: as it was
};
inline constexpr size_t kPackings = 4;

struct PackedPicture {
  std::string bytes;
  std::string extension;  // "jpg", "png", ... by what the bytes are
  Packing packing = Packing::kKept;
};

class PicturePacker {
 public:
  // `shorter_side`: pictures whose shorter side is longer are shrunk to it; 0: none.
  PicturePacker(int32_t shorter_side, bool repack) : shorter_side_(shorter_side), repack_(repack) {}

  PackedPicture Pack(std::string bytes);

 private:
  absl::StatusOr<std::string> Shrink(absl::string_view bytes, const PictureHeader& header);

  const int32_t shorter_side_;
  const bool repack_;
  PictureDecoder decoder_;
  std::vector<uint8_t> pixels_;
};

// A JPEG of quality 95, with libjpeg's own choices, of [height, width, channels] with 1 or 3
// channels. `orientation` other than 1 is kept in EXIF.
absl::StatusOr<std::string> EncodeAsJpeg(const std::vector<uint8_t>& pixels, int32_t width,
                                         int32_t height, int channels, int orientation);

}  // namespace muster::worker
