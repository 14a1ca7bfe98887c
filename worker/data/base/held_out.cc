#include "worker/data/base/held_out.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/rng.h"

namespace muster::worker {
namespace {

constexpr uint64_t kShares = 10;  // the validation set gets one of them, and so does the test set

// Moves the places of `share` from the training set into a part of their own.
Dataset::Part SplitOff(Dataset::Part& train, const std::vector<uint64_t>& places, uint64_t share,
                       std::vector<uint64_t>& kept_places) {
  std::vector<int64_t> kept, taken;
  kept_places.clear();
  for (size_t i = 0; i < places.size(); ++i) {
    const bool take = SplitMix64(places[i]) % kShares == share;
    (take ? taken : kept).push_back(static_cast<int64_t>(i));
    if (!take) kept_places.push_back(places[i]);
  }
  const auto select = [&](const std::vector<int64_t>& ids) {
    at::Tensor index = at::empty({static_cast<int64_t>(ids.size())}, at::kLong);
    std::copy(ids.begin(), ids.end(), index.mutable_data_ptr<int64_t>());
    return Dataset::Part{at::index_select(train.inputs, 0, index),
                         at::index_select(train.targets, 0, index)};
  };
  Dataset::Part part = select(taken);
  train = select(kept);
  return part;
}

}  // namespace

void HoldOutMissing(std::array<Dataset::Part, 3>& parts, const std::array<bool, 3>& given) {
  std::vector<uint64_t> places(static_cast<size_t>(parts[0].inputs.size(0))), kept;
  for (size_t i = 0; i < places.size(); ++i) places[i] = i;
  for (size_t i = 1; i < parts.size(); ++i) {
    if (given[i]) continue;
    parts[i] = SplitOff(parts[0], places, i, kept);
    places.swap(kept);
  }
}

}  // namespace muster::worker
