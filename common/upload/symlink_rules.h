// Which paths and links an uploaded folder may hold, for who packs and who unpacks it. Pure.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/upload/limits.h"

namespace muster {

// Relative, of parts that are neither empty nor "." nor "..", without a zero byte, not too long.
inline bool IsUploadPath(absl::string_view path) {
  if (path.empty() || path.size() > kMaxUploadPathBytes ||
      path.find('\0') != absl::string_view::npos) {
    return false;
  }
  size_t depth = 0;
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == "." || part == ".." || ++depth > kMaxUploadDepth) return false;
  }
  return true;
}

// Whether a link at `path` to `target` stays in the folder, whatever other such links are there: as
// many ".." as its folder is deep, at the front, and none later, where they might follow a link.
inline bool StaysInside(absl::string_view path, absl::string_view target) {
  if (target.empty() || target.size() > kMaxUploadPathBytes || target.front() == '/' ||
      target.find('\0') != absl::string_view::npos) {
    return false;
  }
  int64_t up = std::count(path.begin(), path.end(), '/');
  bool went_down = false;
  for (const absl::string_view part : absl::StrSplit(target, '/')) {
    if (part == "..") {
      if (went_down || --up < 0) return false;
    } else if (!part.empty() && part != ".") {
      went_down = true;
    }
  }
  return true;
}

}  // namespace muster
