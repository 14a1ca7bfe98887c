// Cuts a crop out of a JPEG without decoding it, where the file has restart markers. Pure.
//
// Between two restart markers a JPEG can be decoded by itself. The segments that cover a crop are
// copied, with their markers renumbered, behind the file's own tables and a patched size: a small
// JPEG whose pixels are bit for bit those of the large one, if the crop is given with the margin
// that the upsampling of colour looks at. What lies beside and above the crop then costs a search
// for markers instead of entropy decoding, which is most of a decoder's work. jpeg_repack.h writes
// such files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/data/pictures/jpeg/jpeg_layout.h"
#include "worker/data/pictures/picture_types.h"

namespace muster::worker {

// For one thread at a time; keeps its buffers.
class RestartSplicer {
 public:
  // The small JPEG that holds `crop`, which must lie in the picture; valid until the next call and
  // independent of `jpeg`. Empty where there is none or it is not worth it: no restart markers, or
  // none that begin a row; progressive or CMYK; damaged so that the segments are not all there; or
  // it saves less than a tenth of the entropy decoding. The small picture's first pixel is at
  // (origin_x, origin_y) of the large one.
  absl::string_view Splice(absl::string_view jpeg, const JpegLayout& layout, const CropBox& crop);

  int32_t origin_x() const { return origin_x_; }
  int32_t origin_y() const { return origin_y_; }
  int32_t width() const { return width_; }  // of the small picture
  int32_t height() const { return height_; }

 private:
  struct Segments {
    int64_t per_row = 0;
    int64_t first = 0, end = 0;          // in a row
    int64_t first_row = 0, end_row = 0;  // in MCU rows
  };
  bool Plan(const JpegLayout& layout, const CropBox& crop, Segments& segments) const;
  bool FindSegments(absl::string_view jpeg, const JpegLayout& layout, int64_t count, bool to_end);
  void CopyTables(absl::string_view jpeg, const JpegLayout& layout);

  int32_t origin_x_ = 0, origin_y_ = 0, width_ = 0, height_ = 0;
  std::vector<size_t> starts_;  // of each segment, and one past the marker of the last
  std::string out_;
};

}  // namespace muster::worker
