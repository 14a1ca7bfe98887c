// What lies in a folder of S3 or of an HTTP server. Used by RemoteFileSystem. Thread-safe.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"
#include "common/object_store/remote_caller.h"

namespace muster {

// Page after page of ListObjectsV2, by name. NOT_FOUND where no key is below the folder (but the
// bucket itself may be empty); RESOURCE_EXHAUSTED past five million entries; DATA_LOSS for pages
// that make no sense or go in a circle.
absl::StatusOr<std::vector<FileInfo>> ListS3Folder(RemoteCaller& caller, const RemotePath& folder);

// Whether any key is below the folder.
absl::StatusOr<bool> HasS3Folder(RemoteCaller& caller, const RemotePath& folder);

// The folder's page as nginx writes it in JSON; UNIMPLEMENTED for any other page.
absl::StatusOr<std::vector<FileInfo>> ListHttpFolder(RemoteCaller& caller,
                                                     absl::string_view folder);

}  // namespace muster
