// The one thing that EXIF says about pixels: how the camera was held. Pure.
//
// Sources: CIPA DC-008 (Exif 2.32), TIFF 6.0 for the directory of entries that it is written in.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace muster::worker {

// What a JPEG, and by some writers a WebP, has before the TIFF structure that EXIF is.
inline constexpr absl::string_view kExifPrefix("Exif\0\0", 6);

// Of the TIFF structure without that prefix: the Orientation of its first
// directory, 1 to 8; 1 where it has none or is damaged.
int ExifOrientation(absl::string_view tiff);

// What has to be done to the picture as stored. A transposed one changes rows and columns after
// its sides were reversed.
struct Turn {
  bool reverse_x = false;
  bool reverse_y = false;
  bool transpose = false;
};
Turn TurnOf(int orientation);

}  // namespace muster::worker
