// Language modelling: rows of tokens, each with the same row one token on as its targets.
//
// Rows are cut from the tokens when they are asked for, so a dataset takes the memory of its
// tokens. Row i of some tokens begins at token i x context: rows do not overlap, and every token
// but the first is a target once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "common/fs/prefetch.h"
#include "worker/data/base/dataset.h"
#include "worker/data/text/token_store.h"

namespace muster::worker {

// Which rows of some tokens a split has: those of `blocks` in their order, block b being the rows
// [b x rows_per_block, (b + 1) x rows_per_block). Only the last of them may end before that, with
// the tokens.
struct RowSplit {
  std::shared_ptr<const TokenStore> tokens;  // splits may share them
  int64_t rows_per_block = 1;
  std::vector<int64_t> blocks;
  int64_t rows = 0;
};

class TokenRows final : public Dataset {
 public:
  TokenRows(std::array<RowSplit, 3> splits, int64_t context, int64_t vocabulary,
            std::string fingerprint);

  int64_t size(Split split) const override;
  absl::StatusOr<StoredSample> Read(Split split, int64_t id, std::string& storage) const override;
  void Decode(const StoredSample& sample, const SampleSlot& slot) const override;
  int64_t bytes() const override;

 private:
  const std::array<RowSplit, 3> splits_;
};

struct TextConfig {
  std::string path;  // a file, or a folder of files: those with a leading dot are left out
  int64_t context = 256;
};
inline constexpr uint64_t kMaxTextBytes = uint64_t{64} << 30;

// Text as bytes. Rows are taken in at least 20 blocks of at most 64: of each 20 blocks, number 9
// goes to validation and number 19 to test. NOT_FOUND when nothing is there; INVALID_ARGUMENT when
// there is less than 20 rows of it, or too much; else fs's codes.
absl::StatusOr<std::unique_ptr<Dataset>> ReadText(FileSystem& fs, const TextConfig& config);

struct TokensConfig {
  std::string path;  // the folder that holds train, val and perhaps test: see FindTokenFiles
  int64_t context = 1024;
  int64_t vocabulary = 50257;
};

// Raw little-endian uint16 (.bin, as nanoGPT writes it), whole numbers along one axis (.npy), or
// the files of llm.c or Megatron: see FindTokens. Several shards are read as one. Without test
// tokens, the test set is the validation set. Shards stay in their files (token_file_rows.h), plain
// files are held in memory. `prefetch`: told of rows that will be read, where that is of use.
// NOT_FOUND, or INVALID_ARGUMENT, naming the file; else fs's codes.
absl::StatusOr<std::unique_ptr<Dataset>> ReadTokens(std::shared_ptr<FileSystem> fs,
                                                    const TokensConfig& config,
                                                    std::shared_ptr<Prefetch> prefetch = nullptr);

}  // namespace muster::worker
