#include "worker/train/artifacts/png.h"

#include <png.h>

#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

constexpr uint32_t kMaxSide = 65536;

absl::Status Refused(const png_image& image) {
  return absl::InternalError(absl::StrCat("libpng: ", image.message));
}

}  // namespace

absl::StatusOr<std::string> EncodePng(absl::string_view rgb, uint32_t width, uint32_t height) {
  if (width == 0 || height == 0 || width > kMaxSide || height > kMaxSide ||
      rgb.size() != uint64_t{3} * width * height) {
    return absl::InvalidArgumentError(
        absl::StrCat(rgb.size(), " bytes are no picture of ", width, " x ", height, " pixels"));
  }
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = PNG_FORMAT_RGB;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&image, bytes.data(), &size, /*convert_to_8_bit=*/0, rgb.data(),
                                /*row_stride=*/0, /*colormap=*/nullptr) == 0) {
    return Refused(image);
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace muster::worker
