// What of a folder is not uploaded: `.musterignore`, a shell pattern a line. Pure.
//
// A pattern without a slash is matched against names anywhere, one with a slash against whole
// paths from the folder on; one that ends in a slash means folders only. `#` begins a comment.
// What is in an ignored folder is ignored with it. .git and __pycache__ always are.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

inline constexpr char kIgnoreFile[] = ".musterignore";

class IgnoreRules {
 public:
  explicit IgnoreRules(absl::string_view text);

  // `path` is relative to the folder.
  bool Ignores(const std::string& path, bool is_folder) const;

 private:
  struct Rule {
    std::string pattern;
    bool whole_path = false;
    bool folders_only = false;
  };
  std::vector<Rule> rules_;
};

}  // namespace muster
