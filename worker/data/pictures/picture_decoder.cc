#include "worker/data/pictures/picture_decoder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/pictures/exif_orientation.h"
#include "worker/data/pictures/jpeg/jpeg_reader.h"
#include "worker/data/pictures/png_reader.h"
#include "worker/data/pictures/resize/row_resizer.h"
#include "worker/data/pictures/webp_reader.h"

namespace muster::worker {
namespace {

// Of a side of a picture or a target: what a JPEG can say.
constexpr int32_t kMostSide = 65535;

absl::Status CheckPicture(const PictureHeader& header, const PictureLimits& limits) {
  if (header.width < 1 || header.height < 1) {
    return absl::InvalidArgumentError("has no pixels, by the header that was given");
  }
  const int64_t pixels = int64_t{header.width} * header.height;
  if (header.width > kMostSide || header.height > kMostSide || pixels > limits.max_pixels) {
    return absl::ResourceExhaustedError(
        absl::StrCat("has ", header.width, "x", header.height, " pixels, more than the ",
                     limits.max_pixels, " (and ", kMostSide, " a side) that are decoded"));
  }
  return absl::OkStatus();
}

absl::Status CheckRequest(const PictureSize& size, const CropBox& crop,
                          const PictureTarget& target) {
  const bool inside = crop.x >= 0 && crop.y >= 0 && crop.width >= 1 && crop.height >= 1 &&
                      crop.width <= size.width && crop.x <= size.width - crop.width &&
                      crop.height <= size.height && crop.y <= size.height - crop.height;
  if (!inside) {
    return absl::OutOfRangeError(
        absl::StrCat("has ", size.width, "x", size.height, " pixels, and a crop of ", crop.width,
                     "x", crop.height, " at (", crop.x, ", ", crop.y, ") does not lie in it"));
  }
  if (target.width < 1 || target.width > kMostSide || target.height < 1 ||
      target.height > kMostSide || (target.channels != 1 && target.channels != 3) ||
      target.pixels == nullptr) {
    return absl::OutOfRangeError(absl::StrCat("cannot be resized to ", target.width, "x",
                                              target.height, "x", target.channels, " pixels"));
  }
  return absl::OkStatus();
}

// The crop of the picture as it is stored, of one as it is seen after the turn.
CropBox Unturned(const CropBox& seen, const PictureHeader& header, const Turn& turn) {
  CropBox crop = seen;
  if (turn.transpose) {
    std::swap(crop.x, crop.y);
    std::swap(crop.width, crop.height);
  }
  if (turn.reverse_x) crop.x = header.width - crop.x - crop.width;
  if (turn.reverse_y) crop.y = header.height - crop.y - crop.height;
  return crop;
}

}  // namespace

struct PictureDecoder::State {
  explicit State(const PictureLimits& the_limits)
      : limits(the_limits), jpeg(the_limits), png(the_limits), webp(the_limits) {}

  absl::Status Read(absl::string_view bytes, const PictureHeader& header, const CropBox& crop,
                    bool grey) {
    switch (header.kind) {
      case PictureKind::kJpeg:
        return jpeg.Read(bytes, header, crop, grey, resizer);
      case PictureKind::kPng:
        return png.Read(bytes, header, crop, grey, resizer);
      case PictureKind::kWebp:
        return webp.Read(bytes, header, crop, grey, resizer);
    }
    return absl::InvalidArgumentError("is of no kind of picture, by the header that was given");
  }

  const PictureLimits limits;
  JpegReader jpeg;
  PngReader png;
  WebpReader webp;
  RowResizer resizer;
};

PictureDecoder::PictureDecoder(const PictureLimits& limits)
    : state_(std::make_unique<State>(limits)) {}
PictureDecoder::~PictureDecoder() = default;

absl::Status PictureDecoder::Decode(absl::string_view bytes, const PictureHeader& header,
                                    const CropBox& crop, const PictureTarget& target) {
  MUSTER_RETURN_IF_ERROR(CheckPicture(header, state_->limits));
  const Turn turn = target.upright ? TurnOf(header.orientation) : Turn{};
  const PictureSize size =
      target.upright ? UprightSize(header) : PictureSize{header.width, header.height};
  MUSTER_RETURN_IF_ERROR(CheckRequest(size, crop, target));
  RowResizer::Goal goal{target.width, target.height, turn.reverse_x, turn.reverse_y};
  if (turn.transpose) std::swap(goal.width, goal.height);
  // A row of a transposed picture is a column of the target.
  bool& reversed = turn.transpose ? goal.reverse_y : goal.reverse_x;
  reversed = reversed != target.flip;
  state_->resizer.SetGoal(goal);
  const bool grey = target.channels == 1 || header.channels < 3;
  MUSTER_RETURN_IF_ERROR(state_->Read(bytes, header, Unturned(crop, header, turn), grey));
  state_->resizer.Finish(target.channels, turn.transpose, target.pixels);
  return absl::OkStatus();
}

}  // namespace muster::worker
