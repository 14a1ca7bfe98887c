#include "worker/data/text/token_rows.h"

#include <set>
#include <utility>

#include "common/base/check.h"

namespace muster::worker {

TokenRows::TokenRows(std::array<RowSplit, 3> splits, int64_t context, int64_t vocabulary,
                     std::string fingerprint)
    : Dataset({context}, {at::kLong, at::kLong, {context}}, vocabulary, std::move(fingerprint)),
      splits_(std::move(splits)) {}

int64_t TokenRows::size(Split split) const { return splits_[static_cast<size_t>(split)].rows; }

absl::StatusOr<StoredSample> TokenRows::Read(Split split, int64_t id,
                                             std::string& /*storage*/) const {
  const RowSplit& rows = splits_[static_cast<size_t>(split)];
  MUSTER_CHECK(id >= 0 && id < rows.rows, "a row lies in its split");
  const int64_t context = shape()[0];
  const int64_t block = rows.blocks[static_cast<size_t>(id / rows.rows_per_block)];
  const int64_t row = block * rows.rows_per_block + id % rows.rows_per_block;
  return StoredSample{rows.tokens->Stored(row * context, context),
                      rows.tokens->Stored(row * context + 1, context)};
}

// Stores of one vocabulary hold their tokens alike.
void TokenRows::Decode(const StoredSample& sample, const SampleSlot& slot) const {
  WidenTokens(sample.input, shape()[0], static_cast<int64_t*>(slot.input));
  WidenTokens(sample.target, shape()[0], static_cast<int64_t*>(slot.target));
}

int64_t TokenRows::bytes() const {
  std::set<const TokenStore*> stores;  // splits may share them
  for (const RowSplit& split : splits_) stores.insert(split.tokens.get());
  int64_t total = 0;
  for (const TokenStore* store : stores) total += store->bytes();
  return total;
}

}  // namespace muster::worker
