// Where a split's tokens lie: which files of a folder hold them, and which part of each.
//
// Used by tokens.cc. Needs nothing of torch.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/data/text/token_store.h"

namespace muster::worker {

// The files of one split ("train") in the order of their tokens, as paths: SPLIT.bin or SPLIT.npy;
// where there is neither, the shards *_SPLIT.bin and *_SPLIT_*.bin by the bytes of their names. Of
// Megatron's files these are the .bin. Empty when there is none. INVALID_ARGUMENT: both of the
// first are there; else fs's codes.
inline constexpr size_t kMostTokenShards = 1'000'000;
absl::StatusOr<std::vector<std::string>> FindTokenFiles(FileSystem& fs, const std::string& folder,
                                                        const std::string& split);

// The whole tokens of a file, by what it holds: a .npy of one axis; a .bin of Megatron (its .idx
// lies beside it), of llm.c (it begins with a header), else of uint16. The span lies in the file.
// INVALID_ARGUMENT naming the file when it is none of these; else fs's codes.
absl::StatusOr<TokenSpan> FindTokens(FileSystem& fs, const std::string& path);

}  // namespace muster::worker
