#include "worker/data/pictures/webp_reader.h"

#include <webp/decode.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/pictures/colour_rows.h"

namespace muster::worker {
namespace {

// The upsampling of colour looks one sample of half the resolution to every side.
constexpr int32_t kWebpMarginPixels = 2;

absl::Status StatusOfWebp(VP8StatusCode code) {
  switch (code) {
    case VP8_STATUS_OK:
      return absl::OkStatus();
    case VP8_STATUS_OUT_OF_MEMORY:
      return absl::ResourceExhaustedError("is a WebP that there is no memory for");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return absl::UnimplementedError("is a WebP of a kind that is not decoded");
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return absl::InvalidArgumentError("is a WebP that is cut off");
    default:
      return absl::InvalidArgumentError("is a damaged WebP");
  }
}

// The crop with its margin; libwebp wants even corners.
CropBox Widened(const CropBox& crop, const PictureHeader& header) {
  CropBox wide{std::max(0, crop.x - kWebpMarginPixels) & ~1,
               std::max(0, crop.y - kWebpMarginPixels) & ~1};
  wide.width = std::min(header.width, crop.x + crop.width + kWebpMarginPixels) - wide.x;
  wide.height = std::min(header.height, crop.y + crop.height + kWebpMarginPixels) - wide.y;
  return wide;
}

}  // namespace

absl::Status WebpReader::Read(absl::string_view webp, const PictureHeader& header,
                              const CropBox& crop, bool grey, RowResizer& resizer) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return absl::InternalError("libwebp is another version");
  const auto* bytes = reinterpret_cast<const uint8_t*>(webp.data());
  MUSTER_RETURN_IF_ERROR(StatusOfWebp(WebPGetFeatures(bytes, webp.size(), &config.input)));
  if (config.input.width != header.width || config.input.height != header.height) {
    return absl::InvalidArgumentError("is not the WebP that its header was read from");
  }
  // A file that is cut off is found out whatever the crop: RIFF says its size.
  uint64_t size = 8;
  for (size_t i = 0; i < 4; ++i) size += uint64_t{bytes[4 + i]} << (8 * i);
  if (size > webp.size()) return StatusOfWebp(VP8_STATUS_NOT_ENOUGH_DATA);

  const CropBox wide = Widened(crop, header);
  const size_t stride = 4 * static_cast<size_t>(wide.width);
  const uint64_t picture_bytes =
      4 * uint64_t{static_cast<uint32_t>(header.width)} * static_cast<uint32_t>(header.height);
  const uint64_t needed = picture_bytes + stride * static_cast<size_t>(wide.height);
  if (needed > static_cast<uint64_t>(limits_.max_decoder_bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("may need ", needed, " bytes to be decoded, and a decoder may have ",
                     limits_.max_decoder_bytes, ": raise the limit"));
  }
  MUSTER_RETURN_IF_ERROR(resizer.Begin({crop.width, 0, crop.width}, {crop.height, 0, crop.height},
                                       grey ? 1 : 3, limits_.max_decoder_bytes));
  pixels_.resize(stride * static_cast<size_t>(wide.height) + RowResizer::kSlackBytes);
  converted_.resize(static_cast<size_t>(crop.width) + RowResizer::kSlackBytes);
  config.options.use_cropping = 1;
  config.options.crop_left = wide.x;
  config.options.crop_top = wide.y;
  config.options.crop_width = wide.width;
  config.options.crop_height = wide.height;
  config.output.colorspace = MODE_RGBA;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = pixels_.data();
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.size = stride * static_cast<size_t>(wide.height);
  const VP8StatusCode code = WebPDecode(bytes, webp.size(), &config);
  WebPFreeDecBuffer(&config.output);
  MUSTER_RETURN_IF_ERROR(StatusOfWebp(code));
  for (int32_t y = 0; y < crop.height; ++y) {
    const uint8_t* row = pixels_.data() + static_cast<size_t>(crop.y - wide.y + y) * stride +
                         4 * static_cast<size_t>(crop.x - wide.x);
    if (grey) {
      RgbxToGrey(row, static_cast<size_t>(crop.width), converted_.data());
      row = converted_.data();
    }
    resizer.Push(row);
  }
  return absl::OkStatus();
}

}  // namespace muster::worker
