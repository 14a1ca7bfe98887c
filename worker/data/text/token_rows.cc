#include "worker/data/text/token_rows.h"

#include <ATen/ops/empty.h>

#include <numeric>
#include <set>
#include <utility>

#include "common/base/check.h"

namespace muster::worker {

TokenRows::TokenRows(std::array<RowSplit, 3> splits, int64_t context, int64_t vocabulary,
                     std::string fingerprint)
    : Dataset({context}, vocabulary, std::move(fingerprint)), splits_(std::move(splits)) {}

int64_t TokenRows::size(Split split) const { return splits_[static_cast<size_t>(split)].rows; }

Dataset::Part TokenRows::Gather(Split split, const std::vector<int64_t>& ids) const {
  const RowSplit& rows = splits_[static_cast<size_t>(split)];
  const int64_t context = shape()[0];
  const int64_t count = static_cast<int64_t>(ids.size());
  Part part{at::empty({count, context}, at::kLong), at::empty({count, context}, at::kLong)};
  int64_t* input = part.inputs.mutable_data_ptr<int64_t>();
  int64_t* target = part.targets.mutable_data_ptr<int64_t>();
  for (const int64_t id : ids) {
    MUSTER_CHECK(id >= 0 && id < rows.rows, "a row lies in its split");
    const int64_t block = rows.blocks[static_cast<size_t>(id / rows.rows_per_block)];
    const int64_t row = block * rows.rows_per_block + id % rows.rows_per_block;
    rows.tokens->Copy(row * context, context, input);
    rows.tokens->Copy(row * context + 1, context, target);
    input += context;
    target += context;
  }
  return part;
}

Dataset::Part TokenRows::Range(Split split, int64_t begin, int64_t count) const {
  std::vector<int64_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), begin);
  return Gather(split, ids);
}

int64_t TokenRows::bytes() const {
  std::set<const TokenStore*> stores;  // splits may share them
  for (const RowSplit& split : splits_) stores.insert(split.tokens.get());
  int64_t total = 0;
  for (const TokenStore* store : stores) total += store->bytes();
  return total;
}

}  // namespace muster::worker
