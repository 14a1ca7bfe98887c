#include "worker/data/pictures/png_reader.h"

#include <png.h>
#include <setjmp.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/pictures/colour_rows.h"

namespace muster::worker {
namespace {

// Of one ancillary chunk, decompressed; those that the pixels need are small.
constexpr png_alloc_size_t kMostChunkBytes = 1 << 20;

// One file that is being read. libpng calls back in C and is left by longjmp: what runs under it
// holds nothing with a destructor.
struct PngRun {
  ~PngRun() { png_destroy_read_struct(&png, &info, nullptr); }

  png_structp png = nullptr;
  png_infop info = nullptr;
  jmp_buf jump;
  char message[128] = {};
  absl::string_view rest;
};

[[noreturn]] void LeavePng(png_structp png, png_const_charp message) {
  auto* run = static_cast<PngRun*>(png_get_error_ptr(png));
  snprintf(run->message, sizeof(run->message), "%s", message);
  longjmp(run->jump, 1);
}

void IgnorePngWarning(png_structp, png_const_charp) {}

void TakePngBytes(png_structp png, png_bytep out, size_t count) {
  auto* run = static_cast<PngRun*>(png_get_io_ptr(png));
  if (count > run->rest.size()) png_error(png, "it is cut off");
  memcpy(out, run->rest.data(), count);
  run->rest.remove_prefix(count);
}

// How the rows come out of libpng: 8 bits, 1 byte a pixel when the file is grey, else 4.
void ReadPngInfo(PngRun& run, const PictureHeader& header) {
  run.info = png_create_info_struct(run.png);
  if (run.info == nullptr) png_error(run.png, "no memory");
  png_set_read_fn(run.png, &run, TakePngBytes);
  png_set_user_limits(run.png, static_cast<png_uint_32>(header.width),
                      static_cast<png_uint_32>(header.height));
  png_set_chunk_malloc_max(run.png, kMostChunkBytes);
  // Profiles, texts and the like are not looked at. tRNS is: it is a part of the pixels.
  png_set_keep_unknown_chunks(run.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(run.png, run.info);
  if (png_get_image_width(run.png, run.info) != static_cast<png_uint_32>(header.width) ||
      png_get_image_height(run.png, run.info) != static_cast<png_uint_32>(header.height)) {
    png_error(run.png, "it has another size than its header said");
  }
  const bool colour = (png_get_color_type(run.png, run.info) & PNG_COLOR_MASK_COLOR) != 0;
  png_set_expand(run.png);
  png_set_strip_16(run.png);
  if (colour) {
    png_set_filler(run.png, 255, PNG_FILLER_AFTER);
  } else {
    png_set_strip_alpha(run.png);
  }
}

}  // namespace

absl::Status PngReader::Read(absl::string_view png, const PictureHeader& header,
                             const CropBox& crop, bool grey, RowResizer& resizer) {
  // A file that is cut off is found out whatever the crop.
  if (png.rfind("IEND") == absl::string_view::npos) {
    return absl::InvalidArgumentError("is a PNG that is cut off: its end is missing");
  }
  const bool grey_file = header.channels < 3;
  const size_t pixel_bytes = grey_file ? 1 : 4;
  const size_t stride = static_cast<size_t>(header.width) * pixel_bytes;
  const size_t held_rows = header.progressive ? static_cast<size_t>(header.height) : 1;
  if (stride * held_rows > static_cast<size_t>(limits_.max_decoder_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "needs ", stride * held_rows, " bytes to be decoded, and a decoder may have ",
        limits_.max_decoder_bytes, ": raise the limit, or store it without interlacing"));
  }
  MUSTER_RETURN_IF_ERROR(resizer.Begin({crop.width, 0, crop.width}, {crop.height, 0, crop.height},
                                       grey || grey_file ? 1 : 3, limits_.max_decoder_bytes));
  pixels_.resize(stride * held_rows + RowResizer::kSlackBytes);
  converted_.resize(static_cast<size_t>(crop.width) + RowResizer::kSlackBytes);
  PngRun run;
  run.rest = png;
  run.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &run, LeavePng, IgnorePngWarning);
  if (run.png == nullptr) return absl::ResourceExhaustedError("no memory for libpng");
  if (setjmp(run.jump) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("is a damaged PNG: ", run.message));
  }
  ReadPngInfo(run, header);
  const int passes = png_set_interlace_handling(run.png);
  png_read_update_info(run.png, run.info);
  if (png_get_rowbytes(run.png, run.info) != stride || (passes > 1) != header.progressive) {
    png_error(run.png, "it is of another kind than its header said");
  }
  for (int pass = 0; pass + 1 < passes; ++pass) {
    for (size_t y = 0; y < held_rows; ++y)
      png_read_row(run.png, pixels_.data() + y * stride, nullptr);
  }
  for (int32_t y = 0; y < crop.y + crop.height; ++y) {
    uint8_t* row = pixels_.data() + (header.progressive ? static_cast<size_t>(y) * stride : 0);
    png_read_row(run.png, row, nullptr);
    if (y < crop.y) continue;
    row += static_cast<size_t>(crop.x) * pixel_bytes;
    if (grey && !grey_file) {
      RgbxToGrey(row, static_cast<size_t>(crop.width), converted_.data());
      row = converted_.data();
    }
    resizer.Push(row);
  }
  return absl::OkStatus();
}

}  // namespace muster::worker
