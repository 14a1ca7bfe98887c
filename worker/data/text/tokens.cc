#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/base/data_fingerprint.h"
#include "worker/data/text/token_file_rows.h"
#include "worker/data/text/token_files.h"
#include "worker/data/text/token_rows.h"
#include "worker/data/text/token_splits.h"

namespace muster::worker {
namespace {

absl::Status Bad(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, " ", what));
}

absl::Status TooFew(const std::string& path, int64_t tokens, int64_t context) {
  return Bad(path, absl::StrCat("has ", tokens, " tokens, want ", context + 1,
                                " at least: a row of context ", context, " and a token"));
}

absl::StatusOr<RowSplit> ReadSplit(FileSystem& fs, const TokensConfig& config, const char* split,
                                   const std::vector<std::string>& paths, BlockHasher& hasher) {
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
  if (rows < 1) return TooFew(paths.back(), tokens->size(), config.context);
  return RowSplit{std::move(tokens), rows, {0}, rows};
}

absl::StatusOr<std::unique_ptr<Dataset>> ReadWhole(FileSystem& fs, const TokensConfig& config,
                                                   const TokenSplitFiles& files) {
  BlockHasher hasher;
  std::array<RowSplit, 3> splits;
  for (size_t i = 0; i < splits.size(); ++i) {
    if (i == 2 && files[2] == files[1]) {
      splits[2] = splits[1];
      continue;
    }
    MUSTER_ASSIGN_OR_RETURN(splits[i], ReadSplit(fs, config, kTokenSplits[i], files[i], hasher));
  }
  return std::make_unique<TokenRows>(
      std::move(splits), config.context, config.vocabulary,
      TokensFingerprint(config.context, config.vocabulary, HashToHex(hasher.Finish().whole)));
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenShards(std::shared_ptr<FileSystem> fs,
                                                    std::shared_ptr<Prefetch> prefetch,
                                                    const TokensConfig& config,
                                                    const TokenSplitFiles& files) {
  std::vector<TokenWindows> windows;
  std::vector<std::string> fingerprints;
  for (const std::vector<std::string>& paths : files) {
    MUSTER_ASSIGN_OR_RETURN(TokenWindows opened,
                            TokenWindows::Open(*fs, paths, config.context, config.vocabulary));
    windows.push_back(std::move(opened));
    if (windows.back().rows() < 1)
      return TooFew(paths.back(), windows.back().tokens(), config.context);
    MUSTER_ASSIGN_OR_RETURN(fingerprints.emplace_back(), windows.back().Fingerprint());
  }
  return std::make_unique<TokenFileRows>(
      std::move(fs), std::move(prefetch),
      std::array<TokenWindows, 3>{std::move(windows[0]), std::move(windows[1]),
                                  std::move(windows[2])},
      config.context, config.vocabulary,
      TokenShardsFingerprint(config.context, config.vocabulary, fingerprints));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> ReadTokens(std::shared_ptr<FileSystem> fs,
                                                    const TokensConfig& config,
                                                    std::shared_ptr<Prefetch> prefetch) {
  MUSTER_ASSIGN_OR_RETURN(const TokenSplitFiles files, FindTokenSplits(*fs, config.path));
  if (AreTokenShards(files)) return OpenShards(std::move(fs), std::move(prefetch), config, files);
  return ReadWhole(*fs, config, files);
}

}  // namespace muster::worker
