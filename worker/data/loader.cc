#include "worker/data/loader.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/base/check.h"

namespace muster::worker {
namespace {

// Batch norm needs two samples to have a variance.
constexpr int64_t kStandIns = 2;

at::Tensor ToIndex(const std::vector<int64_t>& ids) {
  at::Tensor index = at::empty({static_cast<int64_t>(ids.size())}, at::kLong);
  std::memcpy(index.mutable_data_ptr(), ids.data(), ids.size() * sizeof(int64_t));
  return index;
}

// One number for each channel, to be laid over [n, channels, ...].
at::Tensor PerChannel(const std::vector<float>& values, int64_t axes) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kFloat);
  std::memcpy(tensor.mutable_data_ptr(), values.data(), values.size() * sizeof(float));
  std::vector<int64_t> sizes(static_cast<size_t>(axes), 1);
  sizes[1] = tensor.size(0);
  return tensor.view(sizes);
}

// Pixels from 0 to 1, as floats of their own.
at::Tensor ToPixels(const at::Tensor& stored, const PixelScale& scale) {
  if (stored.scalar_type() == at::kByte) return stored.to(at::kFloat).div_(255.0);
  const int64_t axes = stored.dim();
  return stored.mul(PerChannel(scale.std, axes)).add_(PerChannel(scale.mean, axes));
}

void Normalize(at::Tensor& pixels, const PixelScale& scale) {
  const int64_t axes = pixels.dim();
  pixels.sub_(PerChannel(scale.mean, axes)).div_(PerChannel(scale.std, axes));
}

at::Tensor ToInputs(const at::Tensor& stored, const PixelScale& scale) {
  if (stored.scalar_type() != at::kByte) return stored;
  at::Tensor pixels = ToPixels(stored, scale);
  Normalize(pixels, scale);
  return pixels;
}

}  // namespace

Batch Loader::TrainBatch(uint64_t step, uint32_t rank, uint32_t world) const {
  std::vector<int64_t> ids = sampler_.Ids(step, rank, world);
  Batch batch;
  batch.count = static_cast<int64_t>(ids.size());
  batch.global_count = static_cast<int64_t>(sampler_.GlobalBatch(step));
  MUSTER_CHECK(batch.global_count > 0, "a training step lies before the sampler's limit");
  if (ids.empty()) {
    for (int64_t i = 0; i < kStandIns; ++i) {
      ids.push_back(i % static_cast<int64_t>(sampler_.samples()));
    }
  }
  const Dataset::Part& part = dataset_.part(Split::kTrain);
  const at::Tensor index = ToIndex(ids);
  batch.inputs = at::index_select(part.inputs, 0, index);
  batch.targets = at::index_select(part.targets, 0, index);
  const PixelScale& scale = dataset_.pixels();
  if (augmenter_ != nullptr && augmenter_->config().changes_pictures()) {
    batch.inputs = ToPixels(batch.inputs, scale);
    augmenter_->ChangePictures(batch.inputs, ids, step);
    Normalize(batch.inputs, scale);
  } else {
    batch.inputs = ToInputs(batch.inputs, scale);
  }
  if (augmenter_ != nullptr && augmenter_->config().mixes())
    augmenter_->Mix(batch.inputs, batch.targets, step, rank);
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
  const Dataset::Part& part = dataset_.part(split);
  return {ToInputs(part.inputs.narrow(0, begin, count), dataset_.pixels()),
          part.targets.narrow(0, begin, count), count, count};
}

}  // namespace muster::worker
