#include "worker/data/formats/file_pattern.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr size_t kMostPatternFiles = 1'000'000;
constexpr size_t kMostPatternBytes = 4096;
constexpr char kGlobCharacters[] = "*?[";

absl::Status BadPattern(absl::string_view pattern, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("pattern ", pattern, ": ", what));
}

bool AllDigits(absl::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == absl::string_view::npos;
}

// The words that "{...}" stands for, given what is in it.
absl::StatusOr<std::vector<std::string>> WordsOf(absl::string_view pattern,
                                                 absl::string_view braces) {
  if (absl::StrContains(braces, ',')) return std::vector<std::string>(absl::StrSplit(braces, ','));
  const size_t dots = braces.find("..");
  if (dots == absl::string_view::npos) return BadPattern(pattern, "want {a,b} or {00..99}");
  const absl::string_view from = braces.substr(0, dots), to = braces.substr(dots + 2);
  uint64_t first = 0, last = 0;
  if (!AllDigits(from) || !AllDigits(to) || !absl::SimpleAtoi(from, &first) ||
      !absl::SimpleAtoi(to, &last) || first > last) {
    return BadPattern(pattern, absl::StrCat("{", braces, "} is no range of numbers upwards"));
  }
  if (last - first >= kMostPatternFiles) return BadPattern(pattern, "stands for too many files");
  const bool padded = (from[0] == '0' && from.size() > 1) || (to[0] == '0' && to.size() > 1);
  const size_t width = padded ? std::max(from.size(), to.size()) : 0;
  std::vector<std::string> words;
  for (uint64_t number = first; number <= last; ++number) {
    std::string word = absl::StrCat(number);
    if (word.size() < width) word.insert(0, width - word.size(), '0');
    words.push_back(std::move(word));
  }
  return words;
}

absl::StatusOr<std::vector<std::string>> ExpandBraces(const std::string& pattern) {
  if (pattern.size() > kMostPatternBytes) return BadPattern(pattern.substr(0, 80), "is too long");
  std::vector<std::string> paths = {""};
  absl::string_view rest = pattern;
  while (!rest.empty()) {
    const size_t open = rest.find_first_of("{}");
    for (std::string& path : paths) absl::StrAppend(&path, rest.substr(0, open));
    if (open == absl::string_view::npos) break;
    const size_t close = rest.find_first_of("{}", open + 1);
    if (rest[open] == '}' || close == absl::string_view::npos || rest[close] == '{') {
      return BadPattern(pattern, "has braces that do not close, or stand in each other");
    }
    MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> words,
                            WordsOf(pattern, rest.substr(open + 1, close - open - 1)));
    if (words.size() > kMostPatternFiles / paths.size()) {
      return BadPattern(pattern,
                        absl::StrCat("stands for more than ", kMostPatternFiles, " files"));
    }
    std::vector<std::string> longer;
    for (const std::string& path : paths) {
      for (const std::string& word : words) longer.push_back(absl::StrCat(path, word));
    }
    paths = std::move(longer);
    rest.remove_prefix(close + 1);
  }
  return paths;
}

absl::StatusOr<std::vector<std::string>> MatchGlob(FileSystem& fs, const std::string& glob) {
  const size_t slash = glob.rfind('/');
  const std::string name = glob.substr(slash == std::string::npos ? 0 : slash + 1);
  const std::string start = glob.substr(0, glob.size() - name.size());
  if (start.find_first_of(kGlobCharacters) != std::string::npos) {
    return BadPattern(glob, "*, ? and [ may only stand in the last part of the path");
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> entries, fs.List(ParentFolder(glob)));
  std::vector<std::string> paths;
  for (const FileInfo& entry : entries) {
    if (::fnmatch(name.c_str(), entry.name.c_str(), FNM_PERIOD) == 0) {
      paths.push_back(absl::StrCat(start, entry.name));
    }
  }
  if (!paths.empty()) return paths;
  return absl::NotFoundError(absl::StrCat("no file fits ", glob));
}

}  // namespace

bool IsFilePattern(absl::string_view path) {
  return path.find_first_of("*?[{") != absl::string_view::npos;
}

absl::StatusOr<std::vector<std::string>> ExpandFilePattern(FileSystem& fs,
                                                           const std::string& pattern) {
  MUSTER_ASSIGN_OR_RETURN(std::vector<std::string> globs, ExpandBraces(pattern));
  std::vector<std::string> paths;
  for (std::string& glob : globs) {
    if (glob.find_first_of(kGlobCharacters) == std::string::npos) {
      paths.push_back(std::move(glob));
      continue;
    }
    MUSTER_ASSIGN_OR_RETURN(std::vector<std::string> found, MatchGlob(fs, glob));
    if (found.size() + paths.size() > kMostPatternFiles) {
      return BadPattern(pattern,
                        absl::StrCat("stands for more than ", kMostPatternFiles, " files"));
    }
    std::move(found.begin(), found.end(), std::back_inserter(paths));
  }
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

}  // namespace muster::worker
