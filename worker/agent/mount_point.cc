#include "worker/agent/mount_point.h"

#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace muster::worker {
namespace {

constexpr size_t kMountPointField = 4;  // see proc(5); spaces and the like are octal escapes

bool LiesIn(absl::string_view path, absl::string_view folder) {
  if (folder == "/") return absl::StartsWith(path, "/");
  return absl::ConsumePrefix(&path, folder) && (path.empty() || absl::StartsWith(path, "/"));
}

}  // namespace

std::string ReadMountInfo() {
  std::ifstream in("/proc/self/mountinfo");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string MountPointOf(absl::string_view path, absl::string_view mount_info) {
  std::string longest;
  for (const absl::string_view line : absl::StrSplit(mount_info, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    std::string folder;
    if (fields.size() <= kMountPointField ||
        !absl::CUnescape(fields[kMountPointField], &folder)) {
      continue;
    }
    if (LiesIn(path, folder) && folder.size() > longest.size()) longest = std::move(folder);
  }
  return longest;
}

}  // namespace muster::worker
