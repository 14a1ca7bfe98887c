#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/text/token_files.h"
#include "worker/data/text/token_rows.h"

namespace muster::worker {
namespace {

absl::Status Bad(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, " ", what));
}

// Undefined (no tokens) when the split has no file.
absl::StatusOr<RowSplit> ReadSplit(FileSystem& fs, const TokensConfig& config, const char* split,
                                   BlockHasher& hasher) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                          FindTokenFiles(fs, config.path, split));
  if (paths.empty()) return RowSplit();
  std::vector<TokenSpan> spans;
  int64_t count = 0;
  for (const std::string& path : paths) {
    MUSTER_ASSIGN_OR_RETURN(spans.emplace_back(), FindTokens(fs, path));
    count += static_cast<int64_t>(spans.back().size_bytes) / BytesOf(spans.back().type);
  }
  auto tokens = std::make_shared<TokenStore>(config.vocabulary);
  tokens->Reserve(count);
  for (size_t i = 0; i < paths.size(); ++i) {
    hasher.Update(absl::StrCat(split, ":", spans[i].size_bytes, ":"));
    MUSTER_RETURN_IF_ERROR(AppendFile(fs, paths[i], spans[i], hasher, *tokens));
  }
  const int64_t rows = (tokens->size() - 1) / config.context;
  if (rows < 1) {
    return Bad(paths.back(),
               absl::StrCat("has ", tokens->size(), " tokens, want ", config.context + 1,
                            " at least: a row of context ", config.context, " and a token"));
  }
  return RowSplit{std::move(tokens), rows, {0}, rows};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> ReadTokens(FileSystem& fs, const TokensConfig& config) {
  BlockHasher hasher;
  std::array<RowSplit, 3> splits;
  constexpr const char* kNames[] = {"train", "val", "test"};
  for (size_t i = 0; i < splits.size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(splits[i], ReadSplit(fs, config, kNames[i], hasher));
    if (splits[i].tokens != nullptr) continue;
    if (i < 2) {
      return absl::NotFoundError(absl::StrCat(config.path, " has neither ", kNames[i], ".bin nor ",
                                              kNames[i], ".npy, and no shard *_", kNames[i],
                                              "_*.bin"));
    }
    splits[i] = splits[1];
  }
  return std::make_unique<TokenRows>(
      std::move(splits), config.context, config.vocabulary,
      absl::StrCat("tokens-v1:", config.context, ":", config.vocabulary, ":",
                   HashToHex(hasher.Finish().whole)));
}

}  // namespace muster::worker
