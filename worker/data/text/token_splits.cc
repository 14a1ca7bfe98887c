#include "worker/data/text/token_splits.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/text/token_files.h"

namespace muster::worker {

absl::StatusOr<TokenSplitFiles> FindTokenSplits(FileSystem& fs, const std::string& folder) {
  TokenSplitFiles files;
  for (size_t i = 0; i < files.size(); ++i) {
    absl::StatusOr<std::vector<std::string>> found = FindTokenFiles(fs, folder, kTokenSplits[i]);
    // Who may not list the folder may still read what lies in it.
    const bool may_do_without = i == 2 && absl::IsPermissionDenied(found.status());
    if (!found.ok() && !may_do_without) return found.status();
    if (found.ok()) files[i] = *std::move(found);
    if (files[i].empty() && i < 2) {
      return absl::NotFoundError(absl::StrCat(folder, " has neither ", kTokenSplits[i], ".bin nor ",
                                              kTokenSplits[i], ".npy, and no shard *_",
                                              kTokenSplits[i], "_*.bin"));
    }
    if (files[i].empty()) files[i] = files[1];
  }
  return files;
}

bool AreTokenShards(const TokenSplitFiles& files) {
  for (const std::vector<std::string>& paths : files) {
    for (const std::string& path : paths) {
      const std::string name = path.substr(path.rfind('/') + 1);
      const bool plain = std::any_of(
          std::begin(kTokenSplits), std::end(kTokenSplits), [&](const std::string& split) {
            return name == absl::StrCat(split, ".bin") || name == absl::StrCat(split, ".npy");
          });
      if (!plain) return true;
    }
  }
  return false;
}

}  // namespace muster::worker
