#include "common/os/path_text.h"

#include "absl/strings/match.h"

namespace muster {

std::string WithoutTrailingSlashes(absl::string_view path) {
  while (path.size() > 1 && absl::EndsWith(path, "/") && !absl::EndsWith(path, "://"))
    path.remove_suffix(1);
  return std::string(path);
}

}  // namespace muster
