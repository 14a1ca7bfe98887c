// Where a split's tokens lie: which file of a folder holds them, and which part of it.
//
// Used by tokens.cc. Needs nothing of torch.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/data/text/token_store.h"

namespace muster::worker {

// The file of one split ("train"): SPLIT.bin or SPLIT.npy; empty when there is neither.
// INVALID_ARGUMENT: both are there; else fs's codes.
absl::StatusOr<std::string> FindTokenFile(FileSystem& fs, const std::string& folder,
                                          const std::string& split);

// The whole tokens of a .bin of uint16, or of a .npy of one axis; the span lies in the file.
// INVALID_ARGUMENT naming the file when it is neither; else fs's codes.
absl::StatusOr<TokenSpan> FindTokens(FileSystem& fs, const std::string& path);

}  // namespace muster::worker
