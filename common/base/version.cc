#include "common/base/version.h"

#include "absl/strings/str_cat.h"

namespace muster {

std::string Version() { return MUSTER_VERSION; }

std::string VersionLine(const std::string& program) {
  return absl::StrCat(program, " ", Version(), " (protocol ", kProtocolVersion, ")");
}

}  // namespace muster
