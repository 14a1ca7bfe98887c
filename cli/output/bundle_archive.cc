#include "cli/output/bundle_archive.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/check.h"
#include "common/os/tar_header.h"

namespace muster::cli {
namespace {

constexpr size_t kLeastSecret = 6;

}  // namespace

BundleArchive::BundleArchive(std::string folder, int64_t time_s)
    : folder_(std::move(folder)), time_s_(time_s) {}

void BundleArchive::HideSecret(absl::string_view secret) {
  if (secret.size() >= kLeastSecret) secrets_.emplace_back(secret);
}

void BundleArchive::Add(const std::string& name, absl::string_view text) {
  const std::string path = absl::StrCat(folder_, "/", name);
  MUSTER_CHECK(path.size() < kTarNameBytes, "a bundle's names are short");
  std::string shown(text);
  for (const std::string& secret : secrets_) {
    shown = absl::StrReplaceAll(shown, {{secret, "[hidden]"}});
  }
  // Its owner alone may read it.
  bytes_ += UstarHeader(
      {.name = path, .mode = 0600, .size = shown.size(), .time_s = static_cast<uint64_t>(time_s_)});
  bytes_ += shown;
  bytes_.append(TarPadding(shown.size()), '\0');
  names_.push_back(name);
}

std::string BundleArchive::Take() && {
  bytes_.append(2 * kTarBlockBytes, '\0');
  return std::move(bytes_);
}

}  // namespace muster::cli
