// Decodes a part of a JPEG into a row resizer, by libjpeg-turbo.
//
// Rows above the crop are only entropy-decoded, columns beside it neither transformed nor coloured,
// rows below it not looked at; see picture_decoder.h for what is decoded smaller. For one thread at
// a time.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/data/pictures/picture_header.h"
#include "worker/data/pictures/picture_types.h"
#include "worker/data/pictures/resize/row_resizer.h"

namespace muster::worker {

class JpegReader {
 public:
  explicit JpegReader(const PictureLimits& limits);
  ~JpegReader();
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  // Begins the resizer, whose goal is set, and pushes the rows that it needs for the crop, which
  // lies in the picture as stored. Grey: one channel. The errors of PictureDecoder::Decode.
  absl::Status Read(absl::string_view jpeg, const PictureHeader& header, const CropBox& crop,
                    bool grey, RowResizer& resizer);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::worker
