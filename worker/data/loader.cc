#include "worker/data/loader.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace muster::worker {
namespace {

// Batch norm needs two samples to have a variance.
constexpr int64_t kStandIns = 2;

// The rank's places of the global batch with the other halves of the pairs that it has one half of
// (Augmenter::Mix): at most two more.
Shard WholePairs(const Shard& share, uint64_t global_batch) {
  if (share.size() == 0) return share;
  return {share.begin - share.begin % 2, std::min(share.end + share.end % 2, global_batch)};
}

}  // namespace

Batch Loader::TrainBatch(uint64_t step, uint32_t rank, uint32_t world) const {
  const bool mixes = augmenter_ != nullptr && augmenter_->config().mixes();
  const Shard share = ShardOf(sampler_.GlobalBatch(step), rank, world);
  const Shard read = mixes ? WholePairs(share, sampler_.GlobalBatch(step)) : share;
  std::vector<int64_t> ids = sampler_.Ids(step, read);
  Batch batch;
  batch.count = static_cast<int64_t>(share.size());
  batch.global_count = static_cast<int64_t>(sampler_.GlobalBatch(step));
  MUSTER_CHECK(batch.global_count > 0, "a training step lies before the sampler's limit");
  if (ids.empty()) {
    for (int64_t i = 0; i < kStandIns; ++i) {
      ids.push_back(i % static_cast<int64_t>(sampler_.samples()));
    }
  }
  const BatchSlots slots(dataset_, transform_.input_type(), static_cast<int64_t>(ids.size()));
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    const StoredSample sample = dataset_.Read(Split::kTrain, ids[i]);
    if (augmenter_ == nullptr) {
      transform_.Evaluate(sample, slots[place]);
      continue;
    }
    RandomStream random = augmenter_->StreamOf(step, static_cast<int64_t>(read.begin) + place);
    transform_.Train(sample, random, slots[place]);
  }
  batch.inputs = slots.part().inputs;
  batch.targets = slots.part().targets;
  if (mixes) augmenter_->Mix(batch.inputs, batch.targets, step);
  if (read.size() != share.size()) {
    const auto before = static_cast<int64_t>(share.begin - read.begin);
    batch.inputs = batch.inputs.narrow(0, before, batch.count);
    batch.targets = batch.targets.narrow(0, before, batch.count);
    ids = {ids.begin() + before, ids.begin() + before + batch.count};
  }
  batch.ids = std::move(ids);
  return batch;
}

int64_t Loader::EvalBatches(Split split, int64_t batch_size, uint32_t rank, uint32_t world) const {
  MUSTER_CHECK(batch_size > 0, "a batch has samples");
  const int64_t count = static_cast<int64_t>(
      ShardOf(static_cast<uint64_t>(dataset_.size(split)), rank, world).size());
  return (count + batch_size - 1) / batch_size;
}

Batch Loader::EvalBatch(Split split, int64_t batch_size, int64_t index, uint32_t rank,
                        uint32_t world) const {
  const Shard shard = ShardOf(static_cast<uint64_t>(dataset_.size(split)), rank, world);
  const int64_t begin = static_cast<int64_t>(shard.begin) + index * batch_size;
  const int64_t count = std::min(batch_size, static_cast<int64_t>(shard.end) - begin);
  MUSTER_CHECK(index >= 0 && count > 0, "an evaluation batch lies in the rank's shard");
  const BatchSlots slots(dataset_, transform_.input_type(), count);
  for (int64_t i = 0; i < count; ++i)
    transform_.Evaluate(dataset_.Read(split, begin + i), slots[i]);
  std::vector<int64_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), begin);
  return {slots.part().inputs, slots.part().targets, count, count, std::move(ids)};
}

}  // namespace muster::worker
