// The first entries of a folder of this machine, for whoever must not wait for a million. Errors as
// in file_system.h.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"
#include "common/fs/file_system.h"

namespace muster {

// At most `most` entries, in no order; as many as that: there may be more.
absl::StatusOr<std::vector<FileInfo>> ListSome(const std::string& folder, size_t most);
// Of one that is open; `name` is for the errors.
absl::StatusOr<std::vector<FileInfo>> ListSome(const UniqueFd& folder, const std::string& name,
                                               size_t most);

}  // namespace muster
