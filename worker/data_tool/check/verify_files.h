// What a file of samples says of itself, compared with what it holds.
//
// Used by verify_data.cc. Functions; any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/fs/file_system.h"

namespace muster::worker {

// The checksums that TFRecord keeps, over all bytes of the file. INVALID_ARGUMENT where one is
// another.
absl::Status VerifyChecksums(FileSystem& data, const std::string& path);

// The index beside a shard of WebDataset: its samples and labels are to be the shard's. False:
// there is none, or one that says nothing of labels that the shard has. INVALID_ARGUMENT with the
// first sample that differs, or where it is no index of the shard.
absl::StatusOr<bool> VerifyShardIndex(FileSystem& data, const std::string& shard);

}  // namespace muster::worker
