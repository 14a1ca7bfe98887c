#include "worker/data/images/compressed_picture.h"

#include <algorithm>
#include <cmath>

#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

CropBox BoxOf(const Window& window) {
  return {static_cast<int32_t>(window.left), static_cast<int32_t>(window.top),
          static_cast<int32_t>(window.width), static_cast<int32_t>(window.height)};
}

// `share` of the shorter side.
CropBox MiddleSquare(const PictureSize& size, double share) {
  const int32_t shorter = std::min(size.width, size.height);
  const int32_t side = std::max(1, static_cast<int32_t>(std::lround(shorter * share)));
  return {(size.width - side) / 2, (size.height - side) / 2, side, side};
}

}  // namespace

absl::StatusOr<PicturePlan> PlanPicture(absl::string_view stored, const PictureDecoding& decoding,
                                        const Augmenter* augmenter, const EpochPlace& place,
                                        int64_t height, int64_t width) {
  PicturePlan plan;
  MUSTER_ASSIGN_OR_RETURN(plan.header, ReadPictureHeader(stored));
  const PictureSize size = decoding.upright ? UprightSize(plan.header)
                                            : PictureSize{plan.header.width, plan.header.height};
  plan.crop = MiddleSquare(size, decoding.center_crop);
  if (augmenter == nullptr) return plan;
  if (augmenter->config().crop_min_area > 0)
    plan.crop = BoxOf(augmenter->ResizedCrop(size.height, size.width, place));
  plan.changes = augmenter->DrawAfterCrop(height, width, place);
  // The decoder mirrors a picture at no cost, where that is the first thing to do.
  plan.flip = !plan.changes.empty() && plan.changes[0].op == PictureOp::kFlipHorizontally;
  if (plan.flip) plan.changes.erase(plan.changes.begin());
  return plan;
}

absl::Status DecodePlanned(absl::string_view stored, const PicturePlan& plan,
                           const PictureDecoding& decoding, const Picture& picture,
                           PictureDecoder& decoder, uint8_t* pixels) {
  return decoder.Decode(stored, plan.header, plan.crop,
                        {.width = static_cast<int32_t>(picture.width),
                         .height = static_cast<int32_t>(picture.height),
                         .channels = static_cast<int>(picture.channels),
                         .flip = plan.flip,
                         .upright = decoding.upright,
                         .pixels = pixels});
}

absl::Status DecodePlanned(absl::string_view stored, const PicturePlan& plan,
                           const PictureDecoding& decoding, const Picture& picture,
                           PictureScratch& scratch) {
  scratch.pixels.resize(static_cast<size_t>(picture.size()));
  return DecodePlanned(stored, plan, decoding, picture, scratch.decoder, scratch.pixels.data());
}

void InputMaker::Make(const PicturePlan& plan, const PictureScratch& scratch,
                      Picture picture) const {
  if (plan.changes.empty()) {
    levels_.ToInputs(scratch.pixels.data(), picture);
    return;
  }
  InterleavedToPixels(scratch.pixels.data(), picture);
  for (const PictureChange& change : plan.changes) Apply(change, picture);
  PixelsToInputs(scale_, picture);
}

}  // namespace muster::worker
