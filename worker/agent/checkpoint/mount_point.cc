#include "worker/agent/checkpoint/mount_point.h"

#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace muster::worker {
namespace {

// See proc(5); spaces and the like in a mount point are octal escapes.
constexpr size_t kIdField = 0;
constexpr size_t kMountParentField = 1;
constexpr size_t kMountPointField = 4;

bool LiesIn(absl::string_view path, absl::string_view folder) {
  if (folder == "/") return absl::StartsWith(path, "/");
  return absl::ConsumePrefix(&path, folder) && (path.empty() || absl::StartsWith(path, "/"));
}

}  // namespace

std::string ReadMountInfo() {
  std::ifstream in("/proc/self/mountinfo");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string MountOf(absl::string_view path, absl::string_view mount_info) {
  std::string longest;
  absl::string_view id;
  for (const absl::string_view line : absl::StrSplit(mount_info, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    std::string folder;
    if (fields.size() <= kMountPointField || !absl::CUnescape(fields[kMountPointField], &folder) ||
        !LiesIn(path, folder)) {
      continue;
    }
    // What is mounted over another one at the same place hides it.
    const bool covers = folder == longest && fields[kMountParentField] == id;
    if (folder.size() <= longest.size() && !covers) continue;
    longest = std::move(folder);
    id = fields[kIdField];
  }
  return longest.empty() ? "" : absl::StrCat(id, " ", longest);
}

std::string MountTable::Of(absl::string_view path) {
  const absl::Duration now = clock_.SinceBoot();
  if (now >= until_) {
    info_ = read_();
    until_ = now + every_;
  }
  return MountOf(path, info_);
}

}  // namespace muster::worker
