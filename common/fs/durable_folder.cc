#include "common/fs/durable_folder.h"

#include <vector>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"

namespace muster {

absl::Status MakeDurableFolder(FileSystem& fs, const std::string& path) {
  // The folders whose entries are new, or may be: from the deepest up.
  std::vector<std::string> holders = {ParentFolder(path)};
  MUSTER_ASSIGN_OR_RETURN(bool exists, fs.Exists(path));
  if (!exists) {
    while (holders.back() != "/" && holders.back() != ".") {
      MUSTER_ASSIGN_OR_RETURN(exists, fs.Exists(holders.back()));
      if (exists) break;
      holders.push_back(ParentFolder(holders.back()));
    }
    MUSTER_RETURN_IF_ERROR(fs.MakeDirectories(path));
  }
  for (auto holder = holders.rbegin(); holder != holders.rend(); ++holder) {
    MUSTER_RETURN_IF_ERROR(fs.SyncDirectory(*holder));
  }
  return absl::OkStatus();
}

}  // namespace muster
