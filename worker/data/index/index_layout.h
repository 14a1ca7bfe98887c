// How an index stands in its file (sample_index.h): what its writer and its reader share. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace muster::worker {

inline constexpr absl::string_view kIndexMagic = "MSTRIDX1";
inline constexpr uint64_t kIndexEntryBytes = 32;
inline constexpr uint64_t kIndexFileBytes = 16;
inline constexpr uint64_t kIndexTailBytes = 4 + 8 + 8;  // size and hash of the footer, magic
inline constexpr uint64_t kMaxIndexFooterBytes = 64u << 20;

struct IndexEntry {
  uint64_t offset = 0;
  uint64_t key_end = 0;
  uint64_t size = 0;
  uint32_t file = 0;
  int32_t label = 0;
};

struct IndexFile {
  uint64_t size_bytes = 0;
  uint64_t path_end = 0;
};

std::string EncodeIndexEntry(const IndexEntry& entry);
// Requires kIndexEntryBytes bytes.
IndexEntry DecodeIndexEntry(const char* bytes);

std::string EncodeIndexFile(const IndexFile& file);
// Requires kIndexFileBytes bytes.
IndexFile DecodeIndexFile(const char* bytes);

// What follows the footer.
std::string EncodeIndexTail(absl::string_view footer);
// The footer of a whole index; empty when it is none.
absl::string_view FindIndexFooter(absl::string_view index);

}  // namespace muster::worker
