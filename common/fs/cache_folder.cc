#include "common/fs/cache_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

std::string Variable(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string CacheFolder(const char* variable, absl::string_view name) {
  if (std::string given = Variable(variable); !given.empty()) return given;
  if (const std::string cache = Variable("XDG_CACHE_HOME"); !cache.empty())
    return absl::StrCat(cache, "/muster/", name);
  if (const std::string home = Variable("HOME"); !home.empty())
    return absl::StrCat(home, "/.cache/muster/", name);
  return absl::StrCat("/var/tmp/muster-", ::getuid(), "/", name);
}

}  // namespace muster
