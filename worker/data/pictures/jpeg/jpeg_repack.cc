#include "worker/data/pictures/jpeg/jpeg_repack.h"

#include <jerror.h>
#include <stdlib.h>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/pictures/jpeg/jpeg_errors.h"
#include "worker/data/pictures/jpeg/jpeg_layout.h"

namespace muster::worker {
namespace {

constexpr unsigned kMostMarkerBytes = 0xFFFF;

// One file that is being written anew. What is in it is given back however libjpeg is left.
struct Repacking {
  Repacking() = default;
  Repacking(const Repacking&) = delete;
  Repacking& operator=(const Repacking&) = delete;
  ~Repacking() {
    if (reads) jpeg_destroy_decompress(&source);
    if (writes) jpeg_destroy_compress(&target);
    free(out);
  }

  void Run(absl::string_view jpeg, const JpegLayout& layout, const PictureLimits& limits);
  void CopyMarkers();

  JpegErrors errors;
  bool reads = false, writes = false;
  jpeg_decompress_struct source;
  jpeg_compress_struct target;
  unsigned char* out = nullptr;
  unsigned long out_bytes = 0;
};

// libjpeg writes the markers of JFIF and Adobe itself.
void Repacking::CopyMarkers() {
  for (jpeg_saved_marker_ptr marker = source.marker_list; marker != nullptr;
       marker = marker->next) {
    const auto begins = [marker](absl::string_view name) {
      return absl::string_view(reinterpret_cast<const char*>(marker->data), marker->data_length)
                 .substr(0, name.size()) == name;
    };
    if (target.write_JFIF_header && marker->marker == JPEG_APP0 &&
        begins(absl::string_view("JFIF\0", 5))) {
      continue;
    }
    if (target.write_Adobe_marker && marker->marker == JPEG_APP0 + 14 && begins("Adobe")) continue;
    jpeg_write_marker(&target, marker->marker, marker->data, marker->data_length);
  }
}

void Repacking::Run(absl::string_view jpeg, const JpegLayout& layout, const PictureLimits& limits) {
  source.err = &errors.manager;
  target.err = &errors.manager;
  jpeg_create_decompress(&source);
  reads = true;
  jpeg_create_compress(&target);
  writes = true;
  LimitJpeg(source, errors, static_cast<long>(limits.max_decoder_bytes));
  jpeg_mem_src(&source, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
  jpeg_save_markers(&source, JPEG_COM, kMostMarkerBytes);
  for (int i = 0; i < 16; ++i) jpeg_save_markers(&source, JPEG_APP0 + i, kMostMarkerBytes);
  jpeg_read_header(&source, TRUE);
  jvirt_barray_ptr* coefficients = jpeg_read_coefficients(&source);
  jpeg_copy_critical_parameters(&source, &target);
  target.optimize_coding = TRUE;
  if (layout.components != 4) {
    target.restart_interval = static_cast<unsigned>(RestartIntervalFor(
        (layout.width + layout.mcu_width - 1) / layout.mcu_width, layout.mcu_width));
  }
  jpeg_mem_dest(&target, &out, &out_bytes);
  jpeg_write_coefficients(&target, coefficients);
  CopyMarkers();
  jpeg_finish_compress(&target);
  jpeg_finish_decompress(&source);
}

}  // namespace

int32_t RestartIntervalFor(int32_t columns, int32_t mcu_width, int32_t segment_pixels) {
  for (int32_t interval = 1; interval < columns; ++interval) {
    if (columns % interval == 0 && int64_t{interval} * mcu_width >= segment_pixels) return interval;
  }
  return columns;
}

absl::StatusOr<std::string> RepackJpeg(absl::string_view jpeg, const PictureLimits& limits) {
  MUSTER_ASSIGN_OR_RETURN(const JpegLayout layout, ReadJpegLayout(jpeg));
  if (int64_t{layout.width} * layout.height > limits.max_pixels) {
    return absl::ResourceExhaustedError(absl::StrCat("has ", layout.width, "x", layout.height,
                                                     " pixels, more than the ", limits.max_pixels,
                                                     " that are decoded"));
  }
  Repacking repacking;
  const bool done = RunJpeg(repacking.errors, [&] { repacking.Run(jpeg, layout, limits); });
  if (!done) return repacking.errors.status();
  return std::string(reinterpret_cast<const char*>(repacking.out), repacking.out_bytes);
}

}  // namespace muster::worker
