#include "worker/data/pictures/jpeg/jpeg_layout.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/pictures/exif_orientation.h"

namespace muster::worker {
namespace {

constexpr uint8_t kStartOfImage = 0xD8, kEndOfImage = 0xD9, kStartOfScan = 0xDA;
constexpr uint8_t kRestartInterval = 0xDD, kApp1 = 0xE1;

absl::Status BadJpeg(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("is no JPEG that can be read: ", what));
}

uint32_t ByteAt(absl::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }
uint32_t ShortAt(absl::string_view bytes, size_t at) {
  return ByteAt(bytes, at) << 8 | ByteAt(bytes, at + 1);
}

// SOF0 to SOF15, among which DHT, JPG and DAC have numbers, too.
bool IsFrame(uint32_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}
bool HasNoLength(uint32_t marker) { return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8); }

// The next marker's 0xFF from `at` on, of several the last; npos when there is none.
size_t NextMarker(absl::string_view bytes, size_t at) {
  while (true) {
    at = bytes.find('\xFF', at);
    if (at == absl::string_view::npos || at + 1 >= bytes.size()) return absl::string_view::npos;
    const uint32_t marker = ByteAt(bytes, at + 1);
    if (marker != 0 && marker != 0xFF) return at;
    ++at;
  }
}

absl::Status ReadFrame(uint32_t marker, size_t at, absl::string_view body, JpegLayout& layout) {
  if (layout.width != 0) return BadJpeg("it has two frames");
  if (marker != 0xC0 && marker != 0xC1 && marker != 0xC2 && marker != 0xC9 && marker != 0xCA) {
    return absl::UnimplementedError(
        absl::StrCat("is a JPEG of a kind that is not decoded (SOF", marker - 0xC0, ")"));
  }
  if (body.size() < 6) return BadJpeg("its frame is cut off");
  layout.frame_marker = static_cast<uint8_t>(marker);
  layout.frame_at = at;
  if (ByteAt(body, 0) != 8) {
    return absl::UnimplementedError(
        absl::StrCat("is a JPEG of ", ByteAt(body, 0), " bits, want 8"));
  }
  layout.height = static_cast<int32_t>(ShortAt(body, 1));
  layout.width = static_cast<int32_t>(ShortAt(body, 3));
  layout.components = static_cast<int>(ByteAt(body, 5));
  if (layout.width == 0 || layout.height == 0) return BadJpeg("it has no pixels");
  if (layout.components != 1 && layout.components != 3 && layout.components != 4) {
    return absl::UnimplementedError(
        absl::StrCat("is a JPEG of ", layout.components, " components, want 1, 3 or 4"));
  }
  if (body.size() < 6 + 3 * static_cast<size_t>(layout.components)) {
    return BadJpeg("its frame is cut off");
  }
  uint32_t across = 1, down = 1;
  for (int i = 0; i < layout.components; ++i) {
    const uint32_t sampling = ByteAt(body, 7 + 3 * static_cast<size_t>(i));
    if ((sampling >> 4) - 1 > 3 || (sampling & 15) - 1 > 3) {
      return BadJpeg("a component has an impossible sampling factor");
    }
    across = std::max(across, sampling >> 4);
    down = std::max(down, sampling & 15);
  }
  layout.mcu_width = static_cast<int32_t>(8 * (layout.components == 1 ? 1 : across));
  layout.mcu_height = static_cast<int32_t>(8 * (layout.components == 1 ? 1 : down));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JpegLayout> ReadJpegLayout(absl::string_view bytes) {
  if (bytes.size() < 2 || ByteAt(bytes, 0) != 0xFF || ByteAt(bytes, 1) != kStartOfImage) {
    return BadJpeg("it does not begin as one");
  }
  JpegLayout layout;
  bool has_exif = false;
  size_t at = 2;
  // Each turn goes on by two bytes or more.
  while (true) {
    const size_t next = NextMarker(bytes, at);
    if (next == absl::string_view::npos) break;
    if (next != at) layout.plain_segments = false;
    at = next;
    const uint32_t marker = ByteAt(bytes, at + 1);
    if (marker == kEndOfImage) break;
    if (HasNoLength(marker)) {
      layout.plain_segments = false;
      at += 2;
      continue;
    }
    if (bytes.size() - at < 4) break;
    const size_t length = ShortAt(bytes, at + 2);
    if (length < 2) return BadJpeg("a segment has an impossible length");
    const absl::string_view body = bytes.substr(at + 4, length - 2);
    const bool whole = body.size() == length - 2;
    if (IsFrame(marker)) {
      MUSTER_RETURN_IF_ERROR(ReadFrame(marker, at, body, layout));
    } else if (marker == kApp1 && !has_exif && absl::StartsWith(body, kExifPrefix)) {
      has_exif = true;
      layout.orientation = ExifOrientation(body.substr(kExifPrefix.size()));
    } else if (marker == kRestartInterval && body.size() >= 2) {
      layout.restart_interval = ShortAt(body, 0);
    } else if (marker == kStartOfScan && whole && !body.empty()) {
      layout.scan_components = static_cast<int>(ByteAt(body, 0));
      layout.scan_at = at;
      layout.entropy_at = at + 2 + length;
      break;
    }
    if (!whole) break;
    at += 2 + length;
  }
  if (layout.width == 0) return BadJpeg("it ends before its size is known");
  return layout;
}

}  // namespace muster::worker
