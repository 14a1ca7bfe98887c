#include "worker/data_tool/show/png_file.h"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

std::vector<uint8_t> BytesOf(const Picture& picture) {
  std::vector<uint8_t> bytes(static_cast<size_t>(picture.size()));
  for (int64_t i = 0; i < picture.plane(); ++i) {
    for (int64_t channel = 0; channel < picture.channels; ++channel) {
      const float value = picture.values[channel * picture.plane() + i];
      bytes[static_cast<size_t>(i * picture.channels + channel)] =
          static_cast<uint8_t>(std::lround(std::clamp(value, 0.0f, 1.0f) * 255.0f));
    }
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::string> EncodeAsPng(const Picture& picture) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = picture.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  const std::vector<uint8_t> bytes = BytesOf(picture);
  png_alloc_size_t size = 0;
  const auto write = [&](void* memory) {
    return ::png_image_write_to_memory(&image, memory, &size, /*convert_to_8_bit=*/0, bytes.data(),
                                       /*row_stride=*/0, /*colormap=*/nullptr) != 0;
  };
  std::string png;
  bool written = write(nullptr);  // only tells the size
  if (written) {
    png.resize(size);
    written = write(png.data());
  }
  if (!written) return absl::InternalError(absl::StrCat("libpng: ", image.message));
  png.resize(size);
  return png;
}

}  // namespace muster::worker
