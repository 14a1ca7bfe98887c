#include "common/base/version.h"

#include "absl/strings/str_cat.h"
#include "common/base/code_version.h"

namespace muster {

std::string Version() { return MUSTER_VERSION; }

std::string CodeVersion() { return MUSTER_CODE_VERSION; }

std::string VersionLine(const std::string& program) {
  return absl::StrCat(program, " ", Version(), " (protocol ", kProtocolVersion, ")");
}

}  // namespace muster
