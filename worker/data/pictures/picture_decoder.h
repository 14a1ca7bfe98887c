// Decodes a part of a compressed picture and resizes it: what a training loader does for each
// sample.
//
// Only what the crop needs is decoded, as far as the format allows. A JPEG is decoded at 1/2, 1/4
// or 1/8 of its size where the crop is at least twice, four or eight times the output; unless
// scaled so, the pixels are those of a full decode that is cropped and resized. The resize is the
// antialiased triangle filter that PIL and torch (bilinear, antialias=True) use, in integers: the
// same bytes on every machine.
//
// As PIL's convert("RGB") does, alpha is dropped, not composited; of 16 bits the upper 8 are taken;
// CMYK is taken as Adobe stores it (inverted). A grey output of a colour JPEG is its luma.
//
// Damage is an error, not a grey patch: what libjpeg warns of is refused, but for bytes that lie
// between two segments and for odd JFIF and Adobe markers, which lose nothing. A file that is cut
// off is refused whatever the crop. Damage behind or, for a JPEG with restart markers, beside the
// crop is not seen.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/data/pictures/picture_header.h"
#include "worker/data/pictures/picture_types.h"

namespace muster::worker {

// For one thread at a time; it keeps its buffers from picture to picture, so have one per thread.
class PictureDecoder {
 public:
  explicit PictureDecoder(const PictureLimits& limits = {});
  ~PictureDecoder();
  PictureDecoder(const PictureDecoder&) = delete;
  PictureDecoder& operator=(const PictureDecoder&) = delete;

  // Decodes `crop` of the picture into the target. `bytes` is the whole file and `header` what
  // ReadPictureHeader says of it. INVALID_ARGUMENT for a damaged or truncated picture,
  // RESOURCE_EXHAUSTED for one beyond the limits, UNIMPLEMENTED for one of a kind that is not
  // decoded, OUT_OF_RANGE for a crop that is empty or not in the picture or a target that is none.
  // Messages go on from the file's name.
  absl::Status Decode(absl::string_view bytes, const PictureHeader& header, const CropBox& crop,
                      const PictureTarget& target);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::worker
