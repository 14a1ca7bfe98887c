#include "worker/data/loader.h"

#include <ATen/ops/zeros.h>

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
// (pair_mix.h): at most two more.
Shard WholePairs(const Shard& share, uint64_t global_batch) {
  if (share.size() == 0) return share;
  return {share.begin - share.begin % 2, std::min(share.end + share.end % 2, global_batch)};
}

// Mixes the two samples of each pair of places; the last of an odd number stays as it is. Requires
// whole pairs but for that. Targets become float [n, classes], each row adding to 1.
void MixPairs(const Augmenter& augmenter, const EpochPlace& first, const Dataset& dataset,
              Batch& batch) {
  const std::vector<int64_t>& shape = dataset.shape();
  const int64_t samples = batch.inputs.size(0), size = batch.inputs.numel() / samples;
  const bool picture = shape.size() == 3;
  const auto at = [&, values = batch.inputs.mutable_data_ptr<float>()](int64_t i) {
    if (!picture) return Picture{values + i * size, size, 1, 1};
    return Picture{values + i * size, shape[0], shape[1], shape[2]};
  };
  const PairMix mix = augmenter.DrawMix(at(0).height, at(0).width, first);
  const at::Tensor soft = at::zeros({samples, dataset.classes()});
  float* rows = soft.mutable_data_ptr<float>();
  const int64_t* classes = batch.targets.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t partner = std::min(i ^ 1, samples - 1);
    if (i < partner) MixPair(mix, at(i), at(partner));
    float* row = rows + i * dataset.classes();
    row[classes[i]] += mix.share;
    row[classes[partner]] += mix.rest();
  }
  batch.targets = soft;
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
    transform_.Train(sample, sampler_.PlaceOf(step, read.begin + i), slots[place]);
  }
  batch.inputs = slots.part().inputs;
  batch.targets = slots.part().targets;
  if (mixes) MixPairs(*augmenter_, sampler_.PlaceOf(step, 0), dataset_, batch);
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
