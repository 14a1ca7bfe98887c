// Removes a folder with all in it, as FileSystem::RemoveTree promises on this machine, whatever
// others do there meanwhile: it goes by descriptors from folder to folder, follows no symbolic
// link, and crosses into no mount. Folders that may not be written are made so first.
//
// Neither depth nor width is bounded: a fixed number of descriptors is held, and what lies deeper
// is moved up to the top first. Thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace muster {

// OK as well when nothing is there. After an error as much is gone as can be; the status tells of
// the first thing that stays, and how many more. FAILED_PRECONDITION: it is a mount, or others keep
// filling it.
absl::Status RemoveTreeByDescriptors(const std::string& path);

// Lets the owner write and search the folder, so that it can be renamed into another one. Follows
// no link in the last part. NOT_FOUND: no folder is there.
absl::Status MakeFolderWritable(const std::string& path);

}  // namespace muster
