// The header block of a member of a tar archive (POSIX 1003.1-1988, "ustar").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kTarBlockBytes = 512;  // headers and members fill whole blocks
inline constexpr size_t kTarNameBytes = 100;   // of a name; what is longer is cut off

struct TarMember {
  absl::string_view name;
  char type = '0';       // '0': a file, 'x': a PAX record
  unsigned mode = 0644;  // permissions
  uint64_t size = 0;     // bytes; less than 8 GiB
  uint64_t time_s = 0;   // Unix seconds of its last change
};

// kTarBlockBytes of it; the owner is root.
std::string UstarHeader(const TarMember& member);

// The zero bytes behind a member of `size` bytes, so that the next header begins a block.
size_t TarPadding(uint64_t size);

}  // namespace muster
