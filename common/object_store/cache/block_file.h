// The file of one cached block: a header with checksums of its chunks of 64 KiB, then the bytes.
//
// A read checks the chunks that it touches, and no others: a small sample out of a large block
// costs little, and neither a bit that flipped nor a page that a power cut lost is taken for data.
//
//   0  "MUSTERB1"   8  key, 64 hex digits   72  u64 bytes of the block   80  u64 XXH3-64 a chunk
//   then u64 XXH3-64 of the header so far, then the block. Little-endian.
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// For a block of so many bytes.
uint64_t BlockHeaderBytes(uint64_t block_bytes);

std::string EncodeBlockHeader(absl::string_view key, absl::string_view block);

// Fills `buffer` with [offset, offset + bytes) of the block in the open file. DATA_LOSS when the
// file is not that block, whole and unharmed; UNAVAILABLE when the disk does not answer. The range
// must lie in the block.
absl::Status ReadBlock(int fd, absl::string_view key, uint64_t block_bytes, uint64_t offset,
                       char* buffer, uint64_t bytes);

}  // namespace muster
