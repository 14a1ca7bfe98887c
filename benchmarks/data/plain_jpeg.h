// Plain libjpeg-turbo, as little as a program can do with it: what the benchmarks hold Muster's
// decoder against. The pixels are thrown away, or kept; broken files end the program.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
// libjpeg's header needs stdio's.
#include <jpeglib.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/data/pictures/picture_types.h"
#include "worker/data/pictures/resize/row_resizer.h"

namespace muster {

class PlainJpeg {
 public:
  // `output`: height and width that crops are wanted in; they are decoded at half, a quarter or an
  // eighth where that is enough. `most_width`: of any picture.
  PlainJpeg(int output, size_t most_width) : output_(output) {
    codec_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&codec_);
    const size_t stride = 4 * most_width;
    rows_.resize(4 * stride);
    for (size_t i = 0; i < 4; ++i) starts_[i] = rows_.data() + i * stride;
  }
  ~PlainJpeg() { jpeg_destroy_decompress(&codec_); }
  PlainJpeg(const PlainJpeg&) = delete;
  PlainJpeg& operator=(const PlainJpeg&) = delete;

  void Crop(absl::string_view file, const worker::CropBox& crop) {
    Begin(file, JCS_EXT_RGBX);
    unsigned scale = 1;
    while (scale < 8 && crop.width >= static_cast<int>(2 * scale) * output_ &&
           crop.height >= static_cast<int>(2 * scale) * output_) {
      scale *= 2;
    }
    codec_.scale_num = 8 / scale;
    codec_.scale_denom = 8;
    jpeg_start_decompress(&codec_);
    const int by = static_cast<int>(scale);
    JDIMENSION left = static_cast<JDIMENSION>(std::max(0, crop.x / by - 2));
    JDIMENSION width =
        std::min(codec_.output_width, static_cast<JDIMENSION>((crop.x + crop.width) / by + 2)) -
        left;
    jpeg_crop_scanline(&codec_, &left, &width);
    const int above = std::max(0, crop.y / by - 2);
    if (above > 0) jpeg_skip_scanlines(&codec_, static_cast<JDIMENSION>(above));
    while (static_cast<int>(codec_.output_scanline) < (crop.y + crop.height) / by)
      jpeg_read_scanlines(&codec_, starts_, 4);
    jpeg_abort_decompress(&codec_);
  }

  // RGBX rows that a resizer may be given.
  const std::vector<uint8_t>& Full(absl::string_view file, int width, int height) {
    const size_t stride = 4 * static_cast<size_t>(width);
    full_.resize(stride * static_cast<size_t>(height) + worker::RowResizer::kSlackBytes);
    Begin(file, JCS_EXT_RGBX);
    jpeg_start_decompress(&codec_);
    while (codec_.output_scanline < codec_.output_height) {
      JSAMPROW rows[4];
      for (size_t i = 0; i < 4; ++i)
        rows[i] = full_.data() + stride * std::min<size_t>(codec_.output_scanline + i, height - 1);
      jpeg_read_scanlines(&codec_, rows, 4);
    }
    jpeg_finish_decompress(&codec_);
    return full_;
  }

 private:
  void Begin(absl::string_view file, J_COLOR_SPACE colours) {
    jpeg_mem_src(&codec_, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&codec_, TRUE);
    codec_.out_color_space = colours;
  }

  const int output_;
  jpeg_decompress_struct codec_;
  jpeg_error_mgr errors_;
  std::vector<uint8_t> rows_, full_;
  JSAMPROW starts_[4];
};

}  // namespace muster
