#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/base/data_fingerprint.h"
#include "worker/data/text/text_files.h"
#include "worker/data/text/token_rows.h"

namespace muster::worker {
namespace {

constexpr int64_t kVocabulary = 256;
constexpr int64_t kBlocks = 20;
constexpr int64_t kValidationBlock = 9;
constexpr int64_t kTestBlock = 19;
constexpr int64_t kMostRowsPerBlock = 64;

// A split of every 20 blocks: the others go to training.
std::array<RowSplit, 3> SplitRows(std::shared_ptr<const TokenStore> tokens, int64_t rows) {
  const int64_t per_block = std::clamp<int64_t>(rows / kBlocks, 1, kMostRowsPerBlock);
  std::array<RowSplit, 3> splits;
  for (RowSplit& split : splits) {
    split.tokens = tokens;
    split.rows_per_block = per_block;
  }
  for (int64_t block = 0; block * per_block < rows; ++block) {
    const int64_t place = block % kBlocks;
    const Split name = place == kValidationBlock ? Split::kValidation
                       : place == kTestBlock     ? Split::kTest
                                                 : Split::kTrain;
    RowSplit& split = splits[static_cast<size_t>(name)];
    split.blocks.push_back(block);
    split.rows += std::min(per_block, rows - block * per_block);
  }
  return splits;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> ReadText(FileSystem& fs, const TextConfig& config) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<TextFile> files, FindTextFiles(fs, config.path));
  uint64_t total_bytes = 0;
  for (const TextFile& file : files) total_bytes += file.size_bytes;
  if (total_bytes > kMaxTextBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.path, " has ", total_bytes, " bytes of text, at most ", kMaxTextBytes, " are read"));
  }
  const auto tokens = std::make_shared<TokenStore>(kVocabulary);
  tokens->Reserve(static_cast<int64_t>(total_bytes));
  BlockHasher hasher;
  for (const TextFile& file : files) {
    MUSTER_RETURN_IF_ERROR(
        AppendFile(fs, file.path, {TokenType::kUint8, 0, file.size_bytes}, hasher, *tokens));
  }
  const int64_t rows = (tokens->size() - 1) / config.context;
  if (rows < kBlocks) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.path, " has ", tokens->size(), " bytes of text, want ", kBlocks * config.context + 1,
        " at least: ", kBlocks, " rows of context ", config.context, " and a byte"));
  }
  return std::make_unique<TokenRows>(
      SplitRows(tokens, rows), config.context, kVocabulary,
      TextFingerprint(config.context, HashToHex(hasher.Finish().whole)));
}

}  // namespace muster::worker
