#include "worker/data/transform.h"

#include <cstring>

#include "worker/data/images/pixels.h"

namespace muster::worker {
namespace {

bool IsBytes(const Dataset& dataset) { return dataset.input_type() == at::kByte; }

void CopyTarget(const StoredSample& sample, const SampleSlot& slot) {
  std::memcpy(slot.target, sample.target.data(), sample.target.size());
}

}  // namespace

bool Transform::only_copies() const { return augmenter_ == nullptr && !IsBytes(dataset_); }

c10::ScalarType Transform::input_type() const {
  return IsBytes(dataset_) ? at::kFloat : dataset_.input_type();
}

void Transform::Train(const StoredSample& sample, const EpochPlace& place,
                      const SampleSlot& slot) const {
  if (augmenter_ == nullptr || !augmenter_->config().changes_pictures())
    return Evaluate(sample, slot);
  const Picture picture = PictureIn(slot);
  if (IsBytes(dataset_)) {
    BytesToPixels(sample.input, picture);
    CopyTarget(sample, slot);
  } else {
    dataset_.Decode(sample, slot);
    InputsToPixels(dataset_.pixels(), picture);
  }
  augmenter_->Change(picture, place);
  PixelsToInputs(dataset_.pixels(), picture);
}

void Transform::Evaluate(const StoredSample& sample, const SampleSlot& slot) const {
  if (!IsBytes(dataset_)) return dataset_.Decode(sample, slot);
  BytesToPixels(sample.input, PictureIn(slot));
  PixelsToInputs(dataset_.pixels(), PictureIn(slot));
  CopyTarget(sample, slot);
}

// Features are pictures of one pixel, each a channel.
Picture Transform::PictureIn(const SampleSlot& slot) const {
  const std::vector<int64_t>& shape = dataset_.shape();
  const bool picture = shape.size() == 3;
  return {static_cast<float*>(slot.input), shape[0], picture ? shape[1] : 1,
          picture ? shape[2] : 1};
}

}  // namespace muster::worker
