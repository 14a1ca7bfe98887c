#include "worker/data/pictures/jpeg/jpeg_reader.h"

#include <jerror.h>

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/pictures/colour_rows.h"
#include "worker/data/pictures/jpeg/jpeg_errors.h"
#include "worker/data/pictures/jpeg/jpeg_layout.h"
#include "worker/data/pictures/jpeg/restart_splice.h"

namespace muster::worker {
namespace {

// The upsampling of colour looks one sample of half the resolution to every side.
constexpr int32_t kMarginPixels = 2;
// libjpeg gives up to 4 rows at once (a sampling factor's most).
constexpr size_t kRowsAtOnce = 4;
// libjpeg-turbo writes rows past the caches where they are aligned for its vectors (vmovntdq), and
// reading them at once then takes as long as a tenth of the decoding. So they are put off by a bit.
constexpr size_t kVectorBytes = 32, kOffVectorBytes = 8;

// The largest of 1, 2, 4 and 8 at which the crop is still as large as the goal.
int32_t DenominatorFor(const CropBox& crop, const RowResizer::Goal& goal) {
  int32_t denominator = 1;
  while (denominator < 8 && crop.width >= int64_t{2} * denominator * goal.width &&
         crop.height >= int64_t{2} * denominator * goal.height) {
    denominator *= 2;
  }
  return denominator;
}

// Pixels of the scaled picture along one side.
struct Range {
  int32_t begin = 0;
  int32_t end = 0;
};

Range Scaled(int32_t begin, int32_t length, int32_t denominator) {
  return {begin / denominator, (begin + length + denominator - 1) / denominator};
}

ResizeAxis AxisOf(const Range& range, int32_t begin, int32_t length, int32_t denominator) {
  return {.pixels = range.end - range.begin,
          .begin = int64_t{begin} - int64_t{range.begin} * denominator,
          .length = length,
          .denominator = denominator};
}

}  // namespace

struct JpegReader::State {
  explicit State(const PictureLimits& the_limits) : limits(the_limits) {}
  ~State() {
    if (created) jpeg_destroy_decompress(&source);
  }

  // Both only under RunJpeg.
  void Start(absl::string_view jpeg);
  void ReadRows(RowResizer& resizer);

  const PictureLimits limits;
  JpegErrors errors;
  bool created = false;
  jpeg_decompress_struct source;
  RestartSplicer splicer;
  std::vector<uint8_t> rows;
  std::vector<uint8_t> converted;
  std::array<JSAMPROW, kRowsAtOnce> row_starts;

  // Of the picture that is being read: the file's, or the spliced one's.
  JDIMENSION width = 0, height = 0;
  int components = 0;
  int32_t denominator = 1;
  bool grey = false;
  Range x, y;
};

JpegReader::JpegReader(const PictureLimits& limits) : state_(std::make_unique<State>(limits)) {}
JpegReader::~JpegReader() = default;

void JpegReader::State::Start(absl::string_view jpeg) {
  source.err = &errors.manager;
  // A decompressor that is used again would lend a file the tables of the one before.
  if (created) jpeg_destroy_decompress(&source);
  created = false;
  jpeg_create_decompress(&source);
  created = true;
  LimitJpeg(source, errors, static_cast<long>(limits.max_decoder_bytes));
  jpeg_mem_src(&source, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
  jpeg_read_header(&source, TRUE);
  // All that follows reckons with what the markers said before.
  if (source.image_width != width || source.image_height != height ||
      source.num_components != components) {
    ERREXIT(&source, JERR_BAD_LENGTH);
  }
  source.scale_num = 8 / static_cast<unsigned>(denominator);
  source.scale_denom = 8;
  // Otherwise a progressive file whose last scans are missing looks other than its transcoding.
  source.do_block_smoothing = FALSE;
  if (source.num_components == 4) {
    source.out_color_space = JCS_CMYK;
  } else if (grey) {
    source.out_color_space = JCS_GRAYSCALE;
  } else {
    source.out_color_space = JCS_EXT_RGBX;
  }
}

void JpegReader::State::ReadRows(RowResizer& resizer) {
  jpeg_start_decompress(&source);
  JDIMENSION left = static_cast<JDIMENSION>(std::max(0, x.begin - kMarginPixels));
  JDIMENSION width =
      std::min(source.output_width, static_cast<JDIMENSION>(x.end + kMarginPixels)) - left;
  if (width < source.output_width) jpeg_crop_scanline(&source, &left, &width);
  const size_t row_bytes =
      size_t{source.output_width} * static_cast<size_t>(source.output_components);
  const size_t stride =
      (row_bytes + RowResizer::kSlackBytes + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
  rows.resize(kRowsAtOnce * stride + 2 * kVectorBytes);
  const size_t over = reinterpret_cast<uintptr_t>(rows.data()) % kVectorBytes;
  uint8_t* const first_row = rows.data() + (kVectorBytes - over) + kOffVectorBytes;
  for (size_t i = 0; i < kRowsAtOnce; ++i) row_starts[i] = first_row + i * stride;
  const int32_t above = std::max(0, y.begin - kMarginPixels);
  if (above > 0) jpeg_skip_scanlines(&source, static_cast<JDIMENSION>(above));
  const size_t first_byte = static_cast<size_t>(x.begin - static_cast<int32_t>(left)) *
                            static_cast<size_t>(source.output_components);
  const size_t pixels = static_cast<size_t>(x.end - x.begin);
  while (static_cast<int32_t>(source.output_scanline) < y.end) {
    const int32_t at = static_cast<int32_t>(source.output_scanline);
    const int32_t got = static_cast<int32_t>(
        jpeg_read_scanlines(&source, row_starts.data(), static_cast<JDIMENSION>(kRowsAtOnce)));
    for (int32_t i = 0; i < got; ++i) {
      if (at + i < y.begin || at + i >= y.end) continue;
      const uint8_t* row = row_starts[static_cast<size_t>(i)] + first_byte;
      if (source.out_color_space == JCS_CMYK) {
        CmykToRgbx(row, pixels, converted.data());
        row = converted.data();
        if (grey) {
          RgbxToGrey(row, pixels, converted.data());
        }
      }
      resizer.Push(row);
    }
  }
}

absl::Status JpegReader::Read(absl::string_view jpeg, const PictureHeader& header,
                              const CropBox& crop, bool grey, RowResizer& resizer) {
  MUSTER_ASSIGN_OR_RETURN(const JpegLayout layout, ReadJpegLayout(jpeg));
  if (layout.width != header.width || layout.height != header.height ||
      layout.components != header.channels) {
    return absl::InvalidArgumentError("is not the JPEG that its header was read from");
  }
  // A file that is cut off is found out whatever the crop.
  const size_t end_marker = jpeg.rfind("\xFF\xD9");
  if (layout.entropy_at == 0 || end_marker == absl::string_view::npos ||
      end_marker < layout.entropy_at) {
    return absl::InvalidArgumentError("is a JPEG that is cut off: its end marker is missing");
  }
  State& state = *state_;
  state.denominator = DenominatorFor(crop, resizer.goal());
  state.grey = grey;
  const int32_t margin = kMarginPixels * state.denominator;
  CropBox wide{std::max(0, crop.x - margin), std::max(0, crop.y - margin)};
  wide.width = std::min(layout.width, crop.x + crop.width + margin) - wide.x;
  wide.height = std::min(layout.height, crop.y + crop.height + margin) - wide.y;
  const absl::string_view spliced = state.splicer.Splice(jpeg, layout, wide);
  CropBox box = crop;
  state.width = static_cast<JDIMENSION>(layout.width);
  state.height = static_cast<JDIMENSION>(layout.height);
  state.components = layout.components;
  if (!spliced.empty()) {
    state.width = static_cast<JDIMENSION>(state.splicer.width());
    state.height = static_cast<JDIMENSION>(state.splicer.height());
    box.x -= state.splicer.origin_x();
    box.y -= state.splicer.origin_y();
  }
  state.x = Scaled(box.x, box.width, state.denominator);
  state.y = Scaled(box.y, box.height, state.denominator);
  const ResizeAxis x = AxisOf(state.x, box.x, box.width, state.denominator);
  const ResizeAxis y = AxisOf(state.y, box.y, box.height, state.denominator);
  if (layout.components == 4) {
    state.converted.resize(4 * static_cast<size_t>(x.pixels) + RowResizer::kSlackBytes);
  }
  MUSTER_RETURN_IF_ERROR(resizer.Begin(x, y, grey ? 1 : 3, state.limits.max_decoder_bytes));
  const bool done = RunJpeg(state.errors, [&state, &resizer, spliced, jpeg] {
    state.Start(spliced.empty() ? jpeg : spliced);
    state.ReadRows(resizer);
  });
  // Gives back what the picture took.
  if (state.created) jpeg_abort_decompress(&state.source);
  return done ? absl::OkStatus() : state.errors.status();
}

}  // namespace muster::worker
