// The files of the page, as the build put them into musterd (cmake/embed_files.cmake).
#pragma once

#include <map>

#include "absl/strings/string_view.h"

namespace muster::controller {

// Contents by path below controller/web/app.
const std::map<absl::string_view, absl::string_view>& PageFiles();

}  // namespace muster::controller
