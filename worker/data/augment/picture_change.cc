#include "worker/data/augment/picture_change.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/data/augment/color_ops.h"
#include "worker/data/augment/picture_ops.h"

namespace muster::worker {

const char* PictureOpName(PictureOp op) {
  switch (op) {
    case PictureOp::kIdentity:
      return "identity";
    case PictureOp::kCropAndResize:
      return "crop_and_resize";
    case PictureOp::kFlipHorizontally:
      return "flip_horizontally";
    case PictureOp::kFlipVertically:
      return "flip_vertically";
    case PictureOp::kTranslate:
      return "translate";
    case PictureOp::kShear:
      return "shear";
    case PictureOp::kRotate:
      return "rotate";
    case PictureOp::kBrightness:
      return "brightness";
    case PictureOp::kContrast:
      return "contrast";
    case PictureOp::kSaturation:
      return "saturation";
    case PictureOp::kSharpness:
      return "sharpness";
    case PictureOp::kHue:
      return "hue";
    case PictureOp::kPosterize:
      return "posterize";
    case PictureOp::kSolarize:
      return "solarize";
    case PictureOp::kAutoContrast:
      return "auto_contrast";
    case PictureOp::kEqualize:
      return "equalize";
    case PictureOp::kInvert:
      return "invert";
    case PictureOp::kGrey:
      return "grey";
    case PictureOp::kBlur:
      return "blur";
    case PictureOp::kErase:
      return "erase";
  }
  return "unknown";
}

void Apply(const PictureChange& change, Picture picture) {
  const auto amount = static_cast<float>(change.amount);
  switch (change.op) {
    case PictureOp::kIdentity:
      return;
    case PictureOp::kCropAndResize:
      return CropAndResize(picture, change.window);
    case PictureOp::kFlipHorizontally:
      return FlipHorizontally(picture);
    case PictureOp::kFlipVertically:
      return FlipVertically(picture);
    case PictureOp::kTranslate:
      return Translate(picture, static_cast<int64_t>(change.x), static_cast<int64_t>(change.y));
    case PictureOp::kShear:
      return ShearFromCorner(picture, change.x, change.y);
    case PictureOp::kRotate:
      return Rotate(picture, change.amount);
    case PictureOp::kBrightness:
      return AdjustBrightness(picture, amount);
    case PictureOp::kContrast:
      return AdjustContrast(picture, amount);
    case PictureOp::kSaturation:
      return AdjustSaturation(picture, amount);
    case PictureOp::kSharpness:
      return AdjustSharpness(picture, amount);
    case PictureOp::kHue:
      return AdjustHue(picture, amount);
    case PictureOp::kPosterize:
      return Posterize(picture, static_cast<int>(change.amount));
    case PictureOp::kSolarize:
      return Solarize(picture, amount);
    case PictureOp::kAutoContrast:
      return AutoContrast(picture);
    case PictureOp::kEqualize:
      return Equalize(picture);
    case PictureOp::kInvert:
      return Invert(picture);
    case PictureOp::kGrey:
      return MakeGrey(picture);
    case PictureOp::kBlur:
      return Blur(picture, static_cast<int64_t>(change.x), change.amount);
    case PictureOp::kErase:
      if (change.noise.has_value()) return EraseWithNoise(picture, change.window, *change.noise);
      return Erase(picture, change.window, change.fill);
  }
}

std::string Describe(const PictureChange& change) {
  std::string text = PictureOpName(change.op);
  const Window& window = change.window;
  const std::string place = absl::StrCat(" top ", window.top, " left ", window.left, " height ",
                                         window.height, " width ", window.width);
  switch (change.op) {
    case PictureOp::kCropAndResize:
      return text + place;
    case PictureOp::kErase:
      return absl::StrCat(text, place, " with ",
                          change.noise.has_value() ? "noise" : absl::StrJoin(change.fill, " "));
    case PictureOp::kTranslate:
    case PictureOp::kShear:
      return absl::StrCat(text, " x ", change.x, " y ", change.y);
    case PictureOp::kBlur:
      return absl::StrCat(text, " sigma ", change.amount, " radius ", change.x);
    case PictureOp::kIdentity:
    case PictureOp::kFlipHorizontally:
    case PictureOp::kFlipVertically:
    case PictureOp::kAutoContrast:
    case PictureOp::kEqualize:
    case PictureOp::kInvert:
    case PictureOp::kGrey:
      return text;
    default:
      return absl::StrCat(text, " ", change.amount);
  }
}

}  // namespace muster::worker
