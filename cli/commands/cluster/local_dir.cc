#include "cli/commands/cluster/local_dir.h"

#include "absl/strings/str_cat.h"

namespace muster::cli {

std::string Absolute(const std::string& path) {
  if (!path.empty() && path[0] == '/') return path;
  return absl::StrCat(WorkingDirectory(), "/", path);
}

absl::StatusOr<std::string> LocalDir(const std::string& flag, const Host& host) {
  if (!flag.empty()) return Absolute(flag);
  if (const std::string dir = host.Env("MUSTER_LOCAL_DIR"); !dir.empty()) return Absolute(dir);
  if (const std::string state = host.Env("XDG_STATE_HOME"); !state.empty()) {
    return absl::StrCat(state, "/muster/local");
  }
  if (const std::string home = host.Env("HOME"); !home.empty())
    return absl::StrCat(home, "/.local/state/muster/local");
  return absl::InvalidArgumentError(
      "no folder to run in: HOME is not set, so give one with --dir or MUSTER_LOCAL_DIR");
}

}  // namespace muster::cli
