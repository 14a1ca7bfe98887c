// From a compressed picture to what the model is given: which part of it is decoded, and what
// augmentation does to that.
//
// Used by Transform, and by muster-data, which shows it. Needs nothing of torch. Functions; any
// thread may call, with a scratch of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/augment/augment.h"
#include "worker/data/augment/picture.h"
#include "worker/data/base/epoch_place.h"
#include "worker/data/base/pixel_scale.h"
#include "worker/data/images/pixels.h"
#include "worker/data/pictures/picture_decoder.h"

namespace muster::worker {

struct PictureDecoding {
  // Where nothing is cropped at random, the middle square of so much of the shorter side is taken.
  double center_crop = 1;
  bool upright = false;  // pictures are turned as EXIF says
};

// All that happens to one picture.
struct PicturePlan {
  PictureHeader header;
  CropBox crop;       // that is decoded, and resized
  bool flip = false;  // left to right, while it is decoded
  std::vector<PictureChange> changes;
};

// In training, of the sample that stands at `place`, by `augmenter`; without an augmenter as in
// evaluation. Fails as ReadPictureHeader does.
absl::StatusOr<PicturePlan> PlanPicture(absl::string_view stored, const PictureDecoding& decoding,
                                        const Augmenter* augmenter, const EpochPlace& place,
                                        int64_t height, int64_t width);

struct PictureScratch {
  PictureDecoder decoder;
  std::vector<uint8_t> pixels;  // that were decoded: [height, width, channels]
};

// Fills `pixels`, [height, width, channels] of the size of `picture`, with the resized crop, before
// any of the plan's changes. Fails as PictureDecoder does.
absl::Status DecodePlanned(absl::string_view stored, const PicturePlan& plan,
                           const PictureDecoding& decoding, const Picture& picture,
                           PictureDecoder& decoder, uint8_t* pixels);
// The same into scratch.pixels.
absl::Status DecodePlanned(absl::string_view stored, const PicturePlan& plan,
                           const PictureDecoding& decoding, const Picture& picture,
                           PictureScratch& scratch);

// From decoded pixels to what the model is given.
class InputMaker {
 public:
  explicit InputMaker(const PixelScale& scale) : scale_(scale), levels_(scale) {}

  // Fills `picture` with the inputs of scratch.pixels after the plan's changes.
  void Make(const PicturePlan& plan, const PictureScratch& scratch, Picture picture) const;

 private:
  const PixelScale scale_;
  const InputLevels levels_;
};

}  // namespace muster::worker
