// From a sample's stored bytes to what the model is given, written into the sample's slot of a
// batch: decoded, scaled (or left to be scaled on the model's device), and in training augmented.
//
// Used by the loader. What is drawn follows from the sample's place in the order of training
// (EpochPlace), so that it does not matter who transforms which sample when. Immutable after its
// making; any thread may call, with a scratch of its own.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "worker/data/augment/augment.h"
#include "worker/data/base/dataset.h"
#include "worker/data/base/epoch_place.h"
#include "worker/data/base/stage_seconds.h"
#include "worker/data/images/compressed_picture.h"

namespace muster::worker {

// What a thread that makes samples keeps from one to the next.
struct SampleScratch {
  std::string stored;  // of SampleSource::Read
  PictureScratch picture;
  StageSeconds busy;  // of the samples that are being made
};

class Transform {
 public:
  // `augmenter` (may be null) and the dataset must outlive it. With `leave_pixels` compressed
  // pictures that are only cropped and flipped are left as pixels.
  Transform(const Dataset& dataset, const Augmenter* augmenter, bool leave_pixels)
      : dataset_(dataset),
        augmenter_(augmenter),
        leaves_pixels_(leave_pixels && dataset.decoding() != nullptr &&
                       (augmenter == nullptr || augmenter->config().only_crops_and_flips())),
        inputs_(dataset.pixels()) {}

  // Whether slots of inputs are filled with pixels, uint8 [height, width, channels], which the
  // dataset's scale makes inputs.
  bool leaves_pixels() const { return leaves_pixels_; }

  // Whether samples are given as they are stored, or nearly so.
  bool only_copies() const;

  // Of a batch's inputs; those of its targets are the dataset's.
  c10::ScalarType input_type() const;

  // For training, of the sample that stands at this place. Fails where the stored bytes are broken;
  // the message goes on from the sample's name.
  absl::Status Train(const StoredSample& sample, const EpochPlace& place, const SampleSlot& slot,
                     SampleScratch& scratch) const;
  absl::Status Evaluate(const StoredSample& sample, const SampleSlot& slot,
                        SampleScratch& scratch) const;

 private:
  Picture PictureIn(const SampleSlot& slot) const;
  absl::Status DecodePicture(const StoredSample& sample, const Augmenter* augmenter,
                             const EpochPlace& place, const SampleSlot& slot,
                             SampleScratch& scratch) const;

  const Dataset& dataset_;
  const Augmenter* augmenter_;
  const bool leaves_pixels_;
  const InputMaker inputs_;
};

}  // namespace muster::worker
