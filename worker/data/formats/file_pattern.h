// Many files named by one pattern, as WebDataset and shells write them.
//
//   shards-{000000..000099}.tar    a range; zeros in front are kept
//   {train,extra}-*.tar            words; '*', '?' and '[...]' in the last part of the path
//
// Used to find a data set's files. Any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"

namespace muster::worker {

bool IsFilePattern(absl::string_view path);

// The paths that it stands for, in byte order, each once. Braces are written out, whether there is
// such a file or not; a glob is looked up with FileSystem::List. INVALID_ARGUMENT: braces that do
// not close or stand in each other, a range that runs backwards, a glob in a folder's name, more
// than a million files. NOT_FOUND: a glob that no file fits.
absl::StatusOr<std::vector<std::string>> ExpandFilePattern(FileSystem& fs,
                                                           const std::string& pattern);

}  // namespace muster::worker
