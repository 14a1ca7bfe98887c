#include "common/fs/durable_folder.h"

#include <vector>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

std::string ParentOf(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

absl::Status MakeDurableFolder(FileSystem& fs, const std::string& path) {
  // The folders whose entries are new, or may be: from the deepest up.
  std::vector<std::string> holders = {ParentOf(path)};
  MUSTER_ASSIGN_OR_RETURN(bool exists, fs.Exists(path));
  if (!exists) {
    while (holders.back() != "/" && holders.back() != ".") {
      MUSTER_ASSIGN_OR_RETURN(exists, fs.Exists(holders.back()));
      if (exists) break;
      holders.push_back(ParentOf(holders.back()));
    }
    MUSTER_RETURN_IF_ERROR(fs.MakeDirectories(path));
  }
  for (auto holder = holders.rbegin(); holder != holders.rend(); ++holder) {
    MUSTER_RETURN_IF_ERROR(fs.SyncDirectory(*holder));
  }
  return absl::OkStatus();
}

}  // namespace muster
