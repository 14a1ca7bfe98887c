// Numbers as files hold them, the lowest byte first. Used by the readers of formats; pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace muster::worker {

// The `count` bytes of `bytes` from `at` on as one number. Requires that they are there.
inline uint64_t LittleEndian(absl::string_view bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  }
  return value;
}

inline uint16_t LittleEndian16(absl::string_view bytes, size_t at) {
  return static_cast<uint16_t>(LittleEndian(bytes, at, 2));
}
inline uint32_t LittleEndian32(absl::string_view bytes, size_t at) {
  return static_cast<uint32_t>(LittleEndian(bytes, at, 4));
}
inline uint64_t LittleEndian64(absl::string_view bytes, size_t at) {
  return LittleEndian(bytes, at, 8);
}

}  // namespace muster::worker
