// Rows of tokens that stay in their files: a language model's data set of any size, of which only
// the rows of a batch are in memory.
//
// For shards (token_files.h); what lies in one plain file is held in memory (token_rows.h). A row
// is read when it is asked for, and a token outside of the vocabulary is found then. Immutable; any
// thread may read.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/fs/file_system.h"
#include "common/fs/prefetch.h"
#include "worker/data/base/dataset.h"
#include "worker/data/text/token_windows.h"

namespace muster::worker {

class TokenFileRows final : public Dataset {
 public:
  // `files`: what the windows read by. `prefetch`: of the same files, where that is of use; else
  // null.
  TokenFileRows(std::shared_ptr<FileSystem> files, std::shared_ptr<Prefetch> prefetch,
                std::array<TokenWindows, 3> splits, int64_t context, int64_t vocabulary,
                std::string fingerprint);

  int64_t size(Split split) const override;
  // The file system's codes; OUT_OF_RANGE naming file and token for one outside of the vocabulary.
  absl::StatusOr<StoredSample> Read(Split split, int64_t id, std::string& storage) const override;
  bool in_files() const override { return true; }
  FileSystem* files() const override { return files_.get(); }
  void WillRead(Split split, const std::vector<int64_t>& ids) const override;
  int64_t bytes() const override { return 0; }

 private:
  const std::shared_ptr<FileSystem> files_;
  const std::shared_ptr<Prefetch> prefetch_;
  const std::array<TokenWindows, 3> splits_;
};

}  // namespace muster::worker
