// The text files of a data set, in the order in which their bytes are read.
//
// Used by text_dataset.cc and by muster-data. Needs nothing of torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"

namespace muster::worker {

inline constexpr size_t kMaxTextFiles = 1'000'000;

struct TextFile {
  std::string path;
  uint64_t size_bytes = 0;
};

// `path`: of a file, or of a folder, with those below it, in the order of their names; names with a
// leading dot are left out. NOT_FOUND where there is none, INVALID_ARGUMENT for more than
// kMaxTextFiles or folders that lead back; else fs's codes.
absl::StatusOr<std::vector<TextFile>> FindTextFiles(FileSystem& fs, const std::string& path);

}  // namespace muster::worker
