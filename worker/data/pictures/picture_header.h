// What a compressed picture says of itself, found without decoding it.
//
// Formats and augmentation read it to choose a crop; the decoder is given it back. The kind is told
// by the first bytes, never by a name: ImageNet has a PNG that is called .JPEG. Pure and
// thread-safe.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::worker {

enum class PictureKind { kJpeg, kPng, kWebp };

// "JPEG", "PNG" or "WebP".
absl::string_view NameOf(PictureKind kind);

struct PictureHeader {
  PictureKind kind = PictureKind::kJpeg;
  // Of the picture as it is stored, in pixels, each at least 1.
  int32_t width = 0;
  int32_t height = 0;
  // As stored: 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha, or for a JPEG CMYK. A PNG
  // with a palette has 3.
  int channels = 0;
  // A JPEG of many scans, or an interlaced PNG: it cannot be decoded in part.
  bool progressive = false;
  // EXIF's Orientation (tag 0x0112), 1 to 8; 1 (as stored) where there is none that makes sense.
  int orientation = 1;
};

// Reads the header of a picture. `bytes` may be only the beginning of the file, as long as the
// size of the picture lies in it; an orientation that lies behind is then not found.
// INVALID_ARGUMENT for what is no picture or is damaged, UNIMPLEMENTED for a kind of JPEG, or an
// animated WebP, that cannot be decoded. Messages go on from the file's name: "is no picture ...".
absl::StatusOr<PictureHeader> ReadPictureHeader(absl::string_view bytes);

struct PictureSize {
  int32_t width = 0;
  int32_t height = 0;
};

// The size of the picture after its orientation was applied: width and height change places for 5
// to 8.
PictureSize UprightSize(const PictureHeader& header);

}  // namespace muster::worker
