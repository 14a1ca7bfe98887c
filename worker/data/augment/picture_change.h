// One change of a picture with all that was drawn for it: augmentation first says what it will do,
// as a list of these, then does it. So what happened to a sample can be told and repeated.
//
// Used by Augmenter and its policies, and by tests that lay each change beside torchvision's.
// Values; any thread may call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/data/augment/picture.h"
#include "worker/data/base/random_stream.h"

namespace muster::worker {

enum class PictureOp {
  kIdentity,
  kCropAndResize,  // to `window`
  kFlipHorizontally,
  kFlipVertically,
  kTranslate,   // by x and y pixels, to the right and down
  kShear,       // by the slopes x and y
  kRotate,      // by `amount` degrees, clockwise
  kBrightness,  // these four by the factor `amount`; 1 changes nothing
  kContrast,
  kSaturation,
  kSharpness,
  kHue,        // by `amount` of the colour circle, -0.5 to 0.5
  kPosterize,  // keeps `amount` of 8 bits
  kSolarize,   // inverts what is at or above `amount`
  kAutoContrast,
  kEqualize,
  kInvert,
  kGrey,
  kBlur,  // Gaussian of sigma `amount`, cut off at x pixels
  kErase  // `window`
};
// Such as "crop_and_resize".
const char* PictureOpName(PictureOp op);

struct PictureChange {
  PictureOp op = PictureOp::kIdentity;
  double amount = 0;
  double x = 0, y = 0;
  Window window = {};
  // What kErase fills with: a value for each channel or one for all, or else noise.
  std::vector<float> fill = {};
  std::optional<RandomStream> noise = {};
};

// Requires a window inside the picture for what has one.
void Apply(const PictureChange& change, Picture picture);

// For people: "rotate 12.5", "crop_and_resize top 3 left 0 height 20 width 25".
std::string Describe(const PictureChange& change);

}  // namespace muster::worker
