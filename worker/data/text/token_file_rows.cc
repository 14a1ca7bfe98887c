#include "worker/data/text/token_file_rows.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace muster::worker {

TokenFileRows::TokenFileRows(std::shared_ptr<FileSystem> files, std::shared_ptr<Prefetch> prefetch,
                             std::array<TokenWindows, 3> splits, int64_t context,
                             int64_t vocabulary, std::string fingerprint)
    : Dataset({context}, {at::kLong, at::kLong, {context}}, vocabulary, std::move(fingerprint)),
      files_(std::move(files)),
      prefetch_(std::move(prefetch)),
      splits_(std::move(splits)) {}

int64_t TokenFileRows::size(Split split) const {
  return splits_[static_cast<size_t>(split)].rows();
}

// The row and the token behind it: the targets are the same one token on.
absl::StatusOr<StoredSample> TokenFileRows::Read(Split split, int64_t id,
                                                 std::string& storage) const {
  MUSTER_CHECK(id >= 0 && id < size(split), "a row lies in its split");
  const size_t row_bytes = static_cast<size_t>(shape()[0]) * sizeof(int64_t);
  storage.resize(row_bytes + sizeof(int64_t));
  MUSTER_RETURN_IF_ERROR(
      splits_[static_cast<size_t>(split)].ReadRow(id, reinterpret_cast<int64_t*>(storage.data())));
  const absl::string_view all = storage;
  return StoredSample{all.substr(0, row_bytes), all.substr(sizeof(int64_t), row_bytes)};
}

void TokenFileRows::WillRead(Split split, const std::vector<int64_t>& ids) const {
  if (prefetch_ == nullptr) return;
  for (const int64_t id : ids) splits_[static_cast<size_t>(split)].WillReadRow(id, *prefetch_);
}

}  // namespace muster::worker
