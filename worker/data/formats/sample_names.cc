#include "worker/data/formats/sample_names.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace muster::worker {

SampleName NameOf(absl::string_view path) {
  while (absl::ConsumePrefix(&path, "./")) {
  }
  const size_t slash = path.rfind('/');
  const size_t base = slash == absl::string_view::npos ? 0 : slash + 1;
  const size_t dot = path.find('.', base);
  if (dot == base || base == path.size()) return {};
  if (dot == absl::string_view::npos) return {path, {}};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

std::string NumberedKey(absl::string_view file_name, uint64_t number) {
  return absl::StrCat(file_name, ":", absl::Dec(number, absl::kZeroPad8));
}

const std::vector<std::string>& PictureExtensions() {
  static const std::vector<std::string>* extensions =
      new std::vector<std::string>{"jpg", "jpeg", "png", "webp"};
  return *extensions;
}

bool IsExtensionOf(absl::string_view extension, const std::vector<std::string>& extensions) {
  return std::any_of(extensions.begin(), extensions.end(), [&](const std::string& known) {
    return absl::EqualsIgnoreCase(extension, known);
  });
}

bool BeginsAsPicture(absl::string_view bytes) {
  return absl::StartsWith(bytes, "\xff\xd8\xff") || absl::StartsWith(bytes, "\x89PNG\r\n\x1a\n") ||
         (absl::StartsWith(bytes, "RIFF") && bytes.size() >= 12 && bytes.substr(8, 4) == "WEBP") ||
         absl::StartsWith(bytes, "GIF8") || absl::StartsWith(bytes, "BM");
}

}  // namespace muster::worker
