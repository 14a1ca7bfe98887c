// Decodes a part of a PNG into a row resizer, by libpng.
//
// Rows below the crop are not decompressed; an interlaced file is decoded as a whole. Stateless
// but for its buffers: for one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/data/pictures/picture_header.h"
#include "worker/data/pictures/picture_types.h"
#include "worker/data/pictures/resize/row_resizer.h"

namespace muster::worker {

class PngReader {
 public:
  explicit PngReader(const PictureLimits& limits) : limits_(limits) {}

  // As JpegReader::Read.
  absl::Status Read(absl::string_view png, const PictureHeader& header, const CropBox& crop,
                    bool grey, RowResizer& resizer);

 private:
  const PictureLimits limits_;
  std::vector<uint8_t> pixels_;     // one row, or the picture when it is interlaced
  std::vector<uint8_t> converted_;  // a row of the crop, made grey
};

}  // namespace muster::worker
