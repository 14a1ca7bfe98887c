// Names one block of one content of a file, for a cache that several processes share. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "common/fs/versioned_files.h"

namespace muster {

// SHA-256 over all that the bytes of the block follow from: the path, the version's tag and size,
// the block's number and the size of blocks. 64 lower-case hex digits.
std::string BlockKeyOf(absl::string_view path, const FileVersion& version, uint64_t block,
                       uint64_t block_bytes);

}  // namespace muster
