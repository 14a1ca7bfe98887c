// Decodes a part of a WebP into a row resizer, by libwebp.
//
// libwebp decodes the rows down to the crop's last one and colours only the crop. It could scale,
// too, but by a filter that is no triangle, so it is not asked to. For one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/data/pictures/picture_header.h"
#include "worker/data/pictures/picture_types.h"
#include "worker/data/pictures/resize/row_resizer.h"

namespace muster::worker {

class WebpReader {
 public:
  explicit WebpReader(const PictureLimits& limits) : limits_(limits) {}

  // As JpegReader::Read.
  absl::Status Read(absl::string_view webp, const PictureHeader& header, const CropBox& crop,
                    bool grey, RowResizer& resizer);

 private:
  const PictureLimits limits_;
  std::vector<uint8_t> pixels_;     // the crop with a margin, RGBA
  std::vector<uint8_t> converted_;  // a row of the crop, made grey
};

}  // namespace muster::worker
