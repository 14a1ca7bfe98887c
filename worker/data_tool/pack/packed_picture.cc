#include "worker/data_tool/pack/packed_picture.h"

#include <stdlib.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/pictures/exif_orientation.h"
#include "worker/data/pictures/jpeg/jpeg_errors.h"
#include "worker/data/pictures/jpeg/jpeg_repack.h"

namespace muster::worker {
namespace {

constexpr int kQuality = 95;

// By the first bytes. What is none of these keeps a picture's extension, so that it stays a sample:
// a broken one, as it was before.
const char* ExtensionOf(absl::string_view bytes) {
  if (absl::StartsWith(bytes, "\x89PNG")) return "png";
  if (absl::StartsWith(bytes, "RIFF")) return "webp";
  if (absl::StartsWith(bytes, "GIF8")) return "gif";
  if (absl::StartsWith(bytes, "BM")) return "bmp";
  return "jpg";
}

// A TIFF structure of one entry: Orientation (0x0112), one SHORT.
std::string ExifWith(int orientation) {
  constexpr absl::string_view kTiff("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 19);
  return absl::StrCat(kExifPrefix, kTiff, std::string(1, static_cast<char>(orientation)),
                      std::string(6, '\0'));
}

// Memory that libjpeg has allocated with malloc.
struct JpegMemory {
  ~JpegMemory() { ::free(bytes); }
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
};

}  // namespace

absl::StatusOr<std::string> EncodeAsJpeg(const std::vector<uint8_t>& pixels, int32_t width,
                                         int32_t height, int channels, int orientation) {
  JpegErrors errors;
  JpegMemory memory;
  const std::string exif = ExifWith(orientation);
  jpeg_compress_struct jpeg = {};
  jpeg.err = &errors.manager;
  const bool done = RunJpeg(errors, [&] {
    ::jpeg_create_compress(&jpeg);
    ::jpeg_mem_dest(&jpeg, &memory.bytes, &memory.size);
    jpeg.image_width = static_cast<JDIMENSION>(width);
    jpeg.image_height = static_cast<JDIMENSION>(height);
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    ::jpeg_set_defaults(&jpeg);
    ::jpeg_set_quality(&jpeg, kQuality, /*force_baseline=*/TRUE);
    jpeg.optimize_coding = TRUE;
    ::jpeg_start_compress(&jpeg, /*write_all_tables=*/TRUE);
    if (orientation != 1) {
      ::jpeg_write_marker(&jpeg, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(exif.data()),
                          static_cast<unsigned>(exif.size()));
    }
    const size_t stride = static_cast<size_t>(width) * static_cast<size_t>(channels);
    while (jpeg.next_scanline < jpeg.image_height) {
      auto* row = const_cast<JSAMPROW>(pixels.data() + jpeg.next_scanline * stride);
      ::jpeg_write_scanlines(&jpeg, &row, 1);
    }
    ::jpeg_finish_compress(&jpeg);
  });
  ::jpeg_destroy_compress(&jpeg);
  if (!done) return errors.status();
  return std::string(reinterpret_cast<const char*>(memory.bytes), memory.size);
}

PackedPicture PicturePacker::Pack(std::string bytes) {
  PackedPicture packed;
  const absl::StatusOr<PictureHeader> header = ReadPictureHeader(bytes);
  const bool jpeg = header.ok() && header->kind == PictureKind::kJpeg;
  if (header.ok() && shorter_side_ > 0 && std::min(header->width, header->height) > shorter_side_) {
    absl::StatusOr<std::string> small = Shrink(bytes, *header);
    if (small.ok()) {
      packed.packing = Packing::kShrunk;
      packed.extension = "jpg";
      packed.bytes = *std::move(small);
      if (!repack_) return packed;
      absl::StatusOr<std::string> repacked = RepackJpeg(packed.bytes);
      if (repacked.ok()) packed.bytes = *std::move(repacked);
      return packed;
    }
    packed.packing = Packing::kNotRepacked;
  } else if (jpeg && repack_) {
    absl::StatusOr<std::string> repacked = RepackJpeg(bytes);
    if (repacked.ok()) return {*std::move(repacked), "jpg", Packing::kRepacked};
    packed.packing = Packing::kNotRepacked;
  } else if (!header.ok()) {
    packed.packing = Packing::kNotRepacked;
  }
  packed.extension = ExtensionOf(bytes);
  packed.bytes = std::move(bytes);
  return packed;
}

absl::StatusOr<std::string> PicturePacker::Shrink(absl::string_view bytes,
                                                  const PictureHeader& header) {
  const int64_t shorter = std::min(header.width, header.height);
  const auto scaled = [&](int32_t side) {
    return std::max<int32_t>(
        1, static_cast<int32_t>((int64_t{side} * shorter_side_ + shorter / 2) / shorter));
  };
  const int32_t width = scaled(header.width), height = scaled(header.height);
  const int channels = header.channels <= 2 ? 1 : 3;
  pixels_.resize(static_cast<size_t>(width) * static_cast<size_t>(height) *
                 static_cast<size_t>(channels));
  MUSTER_RETURN_IF_ERROR(decoder_.Decode(
      bytes, header, {0, 0, header.width, header.height},
      {.width = width, .height = height, .channels = channels, .pixels = pixels_.data()}));
  return EncodeAsJpeg(pixels_, width, height, channels, header.orientation);
}

}  // namespace muster::worker
