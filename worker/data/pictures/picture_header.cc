#include "worker/data/pictures/picture_header.h"

#include <webp/decode.h>

#include <algorithm>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/pictures/exif_orientation.h"
#include "worker/data/pictures/jpeg/jpeg_layout.h"

namespace muster::worker {
namespace {

constexpr absl::string_view kPngSignature("\x89PNG\r\n\x1a\n", 8);

uint32_t BigEndian(absl::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

uint32_t LittleEndian(absl::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

absl::StatusOr<PictureHeader> ReadJpegHeader(absl::string_view bytes) {
  MUSTER_ASSIGN_OR_RETURN(const JpegLayout layout, ReadJpegLayout(bytes));
  const bool one_scan =
      layout.frame_marker != 0xC2 && layout.frame_marker != 0xCA &&
      (layout.scan_components == 0 || layout.scan_components == layout.components);
  return PictureHeader{PictureKind::kJpeg, layout.width, layout.height,
                       layout.components,  !one_scan,    layout.orientation};
}

// The orientation of the eXIf chunk. Each turn goes on by 12 bytes or more.
int PngOrientation(absl::string_view bytes) {
  size_t at = kPngSignature.size();
  while (bytes.size() - at >= 8) {
    const size_t length = BigEndian(bytes, at);
    const absl::string_view type = bytes.substr(at + 4, 4);
    if (type == "eXIf") return ExifOrientation(bytes.substr(at + 8, length));
    if (type == "IEND" || length > bytes.size() - at - 8 || bytes.size() - at - 8 - length < 4) {
      return 1;
    }
    at += 12 + length;
  }
  return 1;
}

absl::StatusOr<PictureHeader> ReadPngHeader(absl::string_view bytes) {
  const auto bad = [](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("is no PNG that can be read: ", what));
  };
  if (bytes.size() < 33) return bad("its header is cut off");
  if (BigEndian(bytes, 8) != 13 || bytes.substr(12, 4) != "IHDR") return bad("it has no header");
  const uint32_t width = BigEndian(bytes, 16), height = BigEndian(bytes, 20);
  constexpr uint32_t kMostSide = std::numeric_limits<int32_t>::max();
  if (width == 0 || height == 0 || width > kMostSide || height > kMostSide) {
    return bad("its size is impossible");
  }
  PictureHeader header{PictureKind::kPng, static_cast<int32_t>(width),
                       static_cast<int32_t>(height)};
  switch (bytes[25]) {  // the colour type
    case 0:
      header.channels = 1;
      break;
    case 2:
    case 3:
      header.channels = 3;
      break;
    case 4:
      header.channels = 2;
      break;
    case 6:
      header.channels = 4;
      break;
    default:
      return bad("its colour type is unknown");
  }
  header.progressive = bytes[28] != 0;
  header.orientation = PngOrientation(bytes);
  return header;
}

// The orientation of the EXIF chunk of an extended file, where it lies behind the picture. Each
// turn goes on by 8 bytes or more.
int WebpOrientation(absl::string_view bytes) {
  size_t at = 12;
  while (at < bytes.size() && bytes.size() - at >= 8) {
    const size_t length = LittleEndian(bytes, at + 4);
    if (bytes.substr(at, 4) == "EXIF") {
      absl::string_view exif = bytes.substr(at + 8, length);
      if (absl::StartsWith(exif, kExifPrefix)) exif.remove_prefix(kExifPrefix.size());
      return ExifOrientation(exif);
    }
    at += 8 + length + length % 2;
  }
  return 1;
}

absl::StatusOr<PictureHeader> ReadWebpHeader(absl::string_view bytes) {
  WebPBitstreamFeatures features;
  const VP8StatusCode code =
      WebPGetFeatures(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), &features);
  if (code != VP8_STATUS_OK || features.width <= 0 || features.height <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "is no WebP that can be read: ",
        code == VP8_STATUS_NOT_ENOUGH_DATA ? "its header is cut off" : "its header is damaged"));
  }
  if (features.has_animation != 0) {
    return absl::UnimplementedError("is an animated WebP, which is not decoded");
  }
  return PictureHeader{PictureKind::kWebp,
                       features.width,
                       features.height,
                       features.has_alpha != 0 ? 4 : 3,
                       false,
                       WebpOrientation(bytes)};
}

}  // namespace

absl::string_view NameOf(PictureKind kind) {
  switch (kind) {
    case PictureKind::kJpeg:
      return "JPEG";
    case PictureKind::kPng:
      return "PNG";
    case PictureKind::kWebp:
      return "WebP";
  }
  return "picture";
}

absl::StatusOr<PictureHeader> ReadPictureHeader(absl::string_view bytes) {
  if (absl::StartsWith(bytes, "\xFF\xD8")) return ReadJpegHeader(bytes);
  if (absl::StartsWith(bytes, kPngSignature)) return ReadPngHeader(bytes);
  if (absl::StartsWith(bytes, "RIFF") &&
      bytes.substr(std::min<size_t>(bytes.size(), 8), 4) == "WEBP") {
    return ReadWebpHeader(bytes);
  }
  return absl::InvalidArgumentError(bytes.empty() ? "is empty" : "is no JPEG, PNG or WebP");
}

PictureSize UprightSize(const PictureHeader& header) {
  if (TurnOf(header.orientation).transpose) return {header.height, header.width};
  return {header.width, header.height};
}

}  // namespace muster::worker
