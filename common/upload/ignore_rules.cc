#include "common/upload/ignore_rules.h"

#include <fnmatch.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace muster {

IgnoreRules::IgnoreRules(absl::string_view text) {
  rules_ = {{".git", false, false}, {"__pycache__", false, true}};
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    Rule rule;
    rule.folders_only = absl::ConsumeSuffix(&line, "/");
    rule.whole_path = absl::StrContains(line, '/');
    absl::ConsumePrefix(&line, "/");
    rule.pattern = std::string(line);
    if (!rule.pattern.empty()) rules_.push_back(std::move(rule));
  }
}

bool IgnoreRules::Ignores(const std::string& path, bool is_folder) const {
  const std::string name = path.substr(path.rfind('/') + 1);
  for (const Rule& rule : rules_) {
    if (rule.folders_only && !is_folder) continue;
    const std::string& subject = rule.whole_path ? path : name;
    if (::fnmatch(rule.pattern.c_str(), subject.c_str(), FNM_PATHNAME) == 0) return true;
  }
  return false;
}

}  // namespace muster
