// Where this user's caches are on this machine: what may be removed at any time.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// The folder that the environment's `variable` names, else muster/NAME in the user's cache folder
// (XDG_CACHE_HOME, or .cache in HOME), else one of the user's in /var/tmp. It need not be there.
std::string CacheFolder(const char* variable, absl::string_view name);

}  // namespace muster
