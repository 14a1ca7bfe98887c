// A report of many small texts as one file, a tar (POSIX ustar), without what must stay secret.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster::cli {

class BundleArchive {
 public:
  // `folder`: what all names begin with, at most 60 bytes. `time_s`: Unix seconds, of all entries.
  BundleArchive(std::string folder, int64_t time_s);

  // From now on `secret` is replaced wherever it stands in a text. Short ones are no secrets.
  void HideSecret(absl::string_view secret);

  // Requires a relative name of at most 39 bytes.
  void Add(const std::string& name, absl::string_view text);

  const std::vector<std::string>& names() const { return names_; }

  // The whole archive.
  std::string Take() &&;

 private:
  const std::string folder_;
  const int64_t time_s_;
  std::vector<std::string> secrets_;
  std::vector<std::string> names_;
  std::string bytes_;
};

}  // namespace muster::cli
