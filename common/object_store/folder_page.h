// The list of a folder that nginx gives with `autoindex on; autoindex_format json;`. Pages for
// people (HTML) are not read: each server writes another one. Pure.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"

namespace muster {

// Sorted by name. '%', '?' and '#' in names are percent-encoded, so that the folder's URL, a slash
// and a name are the URL of the file. INVALID_ARGUMENT for what is no such list, more than a
// million entries, or a name with a slash or a control character in it.
absl::StatusOr<std::vector<FileInfo>> ParseFolderPage(absl::string_view json);

}  // namespace muster
