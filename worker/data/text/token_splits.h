// Which files of a folder hold the tokens of which split, and how they are read.
//
// Used by tokens.cc and by muster-data. Needs nothing of torch.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"

namespace muster::worker {

inline constexpr const char* kTokenSplits[] = {"train", "val", "test"};

// The files of each split; a split without any has those of the one before.
using TokenSplitFiles = std::array<std::vector<std::string>, 3>;

// NOT_FOUND where the folder has none of the first two; else those of FindTokenFiles.
absl::StatusOr<TokenSplitFiles> FindTokenSplits(FileSystem& fs, const std::string& folder);

// SPLIT.bin and SPLIT.npy are read at once; other names are those of shards.
bool AreTokenShards(const TokenSplitFiles& files);

}  // namespace muster::worker
