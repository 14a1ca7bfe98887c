// How large an uploaded folder may be. Checked by who packs, who stores and who unpacks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster {

inline constexpr uint64_t kMaxUploadBytes = 64ull << 20;  // of the archive
inline constexpr size_t kMaxUploadEntries = 20'000;       // files, folders and links
inline constexpr size_t kMaxUploadPathBytes = 1024;
inline constexpr size_t kMaxUploadDepth = 32;  // folders in folders

}  // namespace muster
