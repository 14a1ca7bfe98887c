#include "worker/data/pictures/exif_orientation.h"

#include <cstddef>

namespace muster::worker {
namespace {

constexpr uint16_t kOrientationTag = 0x0112;
constexpr uint16_t kShortType = 3;
constexpr size_t kEntryBytes = 12;

class TiffNumbers {
 public:
  TiffNumbers(absl::string_view bytes, bool little) : bytes_(bytes), little_(little) {}

  bool Has(uint64_t at, uint64_t count) const {
    return at <= bytes_.size() && count <= bytes_.size() - at;
  }
  uint32_t Short(uint64_t at) const {
    return little_ ? Byte(at) | Byte(at + 1) << 8 : Byte(at) << 8 | Byte(at + 1);
  }
  uint32_t Long(uint64_t at) const {
    return little_ ? Short(at) | Short(at + 2) << 16 : Short(at) << 16 | Short(at + 2);
  }

 private:
  uint32_t Byte(uint64_t at) const { return static_cast<uint8_t>(bytes_[at]); }

  absl::string_view bytes_;
  bool little_;
};

}  // namespace

int ExifOrientation(absl::string_view tiff) {
  const absl::string_view order = tiff.substr(0, 4);
  const bool little = order == absl::string_view("II*\0", 4);
  if (!little && order != absl::string_view("MM\0*", 4)) return 1;
  const TiffNumbers numbers(tiff, little);
  if (!numbers.Has(4, 4)) return 1;
  const uint64_t directory = numbers.Long(4);
  if (!numbers.Has(directory, 2)) return 1;
  const uint64_t entries = numbers.Short(directory);  // at most 65,535
  for (uint64_t entry = 0; entry < entries; ++entry) {
    const uint64_t at = directory + 2 + entry * kEntryBytes;
    if (!numbers.Has(at, kEntryBytes)) return 1;
    if (numbers.Short(at) != kOrientationTag) continue;
    const uint32_t value = numbers.Short(at + 8);
    const bool makes_sense = numbers.Short(at + 2) == kShortType && value >= 1 && value <= 8;
    return makes_sense ? static_cast<int>(value) : 1;
  }
  return 1;
}

Turn TurnOf(int orientation) {
  switch (orientation) {
    case 2:
      return {.reverse_x = true};
    case 3:
      return {.reverse_x = true, .reverse_y = true};
    case 4:
      return {.reverse_y = true};
    case 5:
      return {.transpose = true};
    case 6:
      return {.reverse_y = true, .transpose = true};
    case 7:
      return {.reverse_x = true, .reverse_y = true, .transpose = true};
    case 8:
      return {.reverse_x = true, .transpose = true};
    default:
      return {};
  }
}

}  // namespace muster::worker
