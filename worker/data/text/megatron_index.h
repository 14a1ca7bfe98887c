// The index (.idx) that Megatron-LM writes beside a file of tokens (.bin): how long each sequence
// is and where it begins (megatron/core/datasets/indexed_dataset.py of
// https://github.com/NVIDIA/Megatron-LM).
//
// Used by token_files.cc. Bytes from outside; the index is read piece by piece.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/data/text/token_store.h"

namespace muster::worker {

// All tokens of all sequences of a .bin of `bin_bytes`, by its index: they follow each other.
// Nothing when `index` is not there or begins as no such index. INVALID_ARGUMENT naming the index
// when its version or type is not read, it is cut off, or its sequences do not lie one after the
// other in the .bin; else fs's codes.
absl::StatusOr<std::optional<TokenSpan>> ReadMegatronIndex(FileSystem& fs, const std::string& index,
                                                           uint64_t bin_bytes);

}  // namespace muster::worker
