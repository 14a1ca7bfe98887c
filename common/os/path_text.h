// Paths as text, of this machine or of an object store. Pure.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// In an object store "bucket//file" is another file than "bucket/file". "/" stays, and so does a
// scheme such as "s3://".
std::string WithoutTrailingSlashes(absl::string_view path);

}  // namespace muster
