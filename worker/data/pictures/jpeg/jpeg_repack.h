// Writes a JPEG anew so that parts of it can be read faster, without changing a coefficient.
//
// For whoever packs a data set. The result is an ordinary JPEG that decodes to the same pixels
// anywhere: restart markers every few MCUs, where restart_splice.h cuts, Huffman tables made for
// this picture, and one scan where there were many (a progressive file is two to three times slower
// to decode). Everything else, such as EXIF and colour profiles, is kept. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/pictures/picture_types.h"

namespace muster::worker {

// Segments between two restart markers are at least so wide, where the width of the picture allows
// it: each costs two or three bytes.
inline constexpr int32_t kSegmentPixels = 64;

// MCUs between two restart markers of a picture of so many MCUs a row: the smallest divisor of
// `columns` that makes a segment at least `segment_pixels` wide, else the whole row.
int32_t RestartIntervalFor(int32_t columns, int32_t mcu_width,
                           int32_t segment_pixels = kSegmentPixels);

// The repacked JPEG. A CMYK one gets no restart markers, since those are not spliced. Errors as of
// PictureDecoder::Decode; the limits bound the memory, 3 to 8 bytes a pixel. The whole picture is
// entropy-decoded, so that a damaged one is refused here.
absl::StatusOr<std::string> RepackJpeg(absl::string_view jpeg, const PictureLimits& limits = {});

}  // namespace muster::worker
