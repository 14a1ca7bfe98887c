// The header of a shard of tokens as llm.c writes it (dev/data/data_common.py of
// https://github.com/karpathy/llm.c): 256 numbers of 32 bits, of which three say something.
//
// Used by token_files.cc. A pure parser of bytes from outside.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/text/token_store.h"

namespace muster::worker {

inline constexpr uint64_t kShardHeaderBytes = 256 * 4;

// `start` is the beginning of a file of `file_bytes`, kShardHeaderBytes or all that it has. Nothing
// when it does not begin as a shard. INVALID_ARGUMENT, without the file's name, when it does, but
// its version is not known or it holds another number of tokens than it says.
absl::StatusOr<std::optional<TokenSpan>> ParseShardHeader(absl::string_view start,
                                                          uint64_t file_bytes);

}  // namespace muster::worker
