#include "worker/data/pictures/decoder_versions.h"

// jpeglib.h wants size_t and FILE first.
#include <jconfig.h>
#include <png.h>
#include <webp/decode.h>

#include <cstddef>
#include <cstdio>

#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

#define MUSTER_QUOTE_(text) #text
#define MUSTER_QUOTE(text) MUSTER_QUOTE_(text)
#ifdef LIBJPEG_TURBO_VERSION
constexpr char kJpegVersion[] = "turbo " MUSTER_QUOTE(LIBJPEG_TURBO_VERSION);
#else
constexpr char kJpegVersion[] = MUSTER_QUOTE(JPEG_LIB_VERSION);
#endif

}  // namespace

std::map<std::string, std::string> DecoderVersions() {
  const int webp = ::WebPGetDecoderVersion();
  return {{"libjpeg", kJpegVersion},
          {"libpng", ::png_get_libpng_ver(nullptr)},
          {"libwebp", absl::StrCat(webp >> 16, ".", webp >> 8 & 0xff, ".", webp & 0xff)}};
}

}  // namespace muster::worker
