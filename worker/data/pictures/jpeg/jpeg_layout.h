// Where the parts of a JPEG lie, by its markers alone. Pure.
//
// The reader of headers and the splice of restart segments use it. Source: ITU-T T.81, annex B.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::worker {

struct JpegLayout {
  uint8_t frame_marker = 0;  // SOF0, SOF1, SOF2, SOF9 or SOF10
  size_t frame_at = 0;       // of the frame's marker, 0xFF
  int32_t width = 0;
  int32_t height = 0;
  int components = 0;  // 1 to 4
  // A minimum coded unit in pixels. With one component it is one block of 8x8, whatever it says.
  int32_t mcu_width = 0;
  int32_t mcu_height = 0;
  int orientation = 1;
  uint32_t restart_interval = 0;  // in MCUs; 0: none
  int scan_components = 0;        // of the first scan; 0: the bytes end before it
  size_t scan_at = 0;             // of the first scan's marker
  size_t entropy_at = 0;          // of its entropy-coded data
  // Up to there are only segments with a length, one behind the other.
  bool plain_segments = true;
};

// INVALID_ARGUMENT for what is no JPEG or ends before its size, UNIMPLEMENTED for a kind that is
// not decoded. `bytes` may end anywhere behind the frame.
absl::StatusOr<JpegLayout> ReadJpegLayout(absl::string_view bytes);

}  // namespace muster::worker
