#include "worker/data/transform.h"

#include <cstring>

#include "common/base/status_macros.h"
#include "worker/data/base/stopwatch.h"
#include "worker/data/images/pixels.h"

namespace muster::worker {
namespace {

bool IsBytes(const Dataset& dataset) { return dataset.input_type() == at::kByte; }

void CopyTarget(const StoredSample& sample, const SampleSlot& slot) {
  std::memcpy(slot.target, sample.target.data(), sample.target.size());
}

}  // namespace

bool Transform::only_copies() const {
  return augmenter_ == nullptr && !IsBytes(dataset_) && dataset_.decoding() == nullptr;
}

c10::ScalarType Transform::input_type() const {
  if (leaves_pixels_) return at::kByte;
  return IsBytes(dataset_) ? at::kFloat : dataset_.input_type();
}

absl::Status Transform::Train(const StoredSample& sample, const EpochPlace& place,
                              const SampleSlot& slot, SampleScratch& scratch) const {
  if (augmenter_ == nullptr || !augmenter_->config().changes_pictures())
    return Evaluate(sample, slot, scratch);
  if (dataset_.decoding() != nullptr)
    return DecodePicture(sample, augmenter_, place, slot, scratch);
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
  return absl::OkStatus();
}

absl::Status Transform::Evaluate(const StoredSample& sample, const SampleSlot& slot,
                                 SampleScratch& scratch) const {
  if (dataset_.decoding() != nullptr)
    return DecodePicture(sample, /*augmenter=*/nullptr, {}, slot, scratch);
  if (IsBytes(dataset_)) {
    BytesToPixels(sample.input, PictureIn(slot));
    PixelsToInputs(dataset_.pixels(), PictureIn(slot));
    CopyTarget(sample, slot);
  } else {
    dataset_.Decode(sample, slot);
  }
  return absl::OkStatus();
}

absl::Status Transform::DecodePicture(const StoredSample& sample, const Augmenter* augmenter,
                                      const EpochPlace& place, const SampleSlot& slot,
                                      SampleScratch& scratch) const {
  const PictureDecoding& decoding = *dataset_.decoding();
  const Picture picture = PictureIn(slot);
  MUSTER_ASSIGN_OR_RETURN(
      const PicturePlan plan,
      PlanPicture(sample.input, decoding, augmenter, place, picture.height, picture.width));
  const Stopwatch decode;
  if (leaves_pixels_) {
    MUSTER_RETURN_IF_ERROR(DecodePlanned(sample.input, plan, decoding, picture,
                                         scratch.picture.decoder,
                                         static_cast<uint8_t*>(slot.input)));
  } else {
    MUSTER_RETURN_IF_ERROR(DecodePlanned(sample.input, plan, decoding, picture, scratch.picture));
  }
  scratch.busy.decode += decode.seconds();
  if (!leaves_pixels_) inputs_.Make(plan, scratch.picture, picture);
  CopyTarget(sample, slot);
  return absl::OkStatus();
}

// Features are pictures of one pixel, each a channel.
Picture Transform::PictureIn(const SampleSlot& slot) const {
  const std::vector<int64_t>& shape = dataset_.shape();
  const bool picture = shape.size() == 3;
  return {static_cast<float*>(slot.input), shape[0], picture ? shape[1] : 1,
          picture ? shape[2] : 1};
}

}  // namespace muster::worker
