#include "common/base/version.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/code_version.h"

namespace muster {
namespace {

constexpr size_t kShownDigits = 12;

std::string& TheCommit() {
  static std::string* commit = new std::string;
  return *commit;
}

}  // namespace

std::string Version() { return MUSTER_VERSION; }

void SetCommit(const std::string& code_version) {
  const size_t digits = std::min(code_version.find('-'), code_version.size());
  TheCommit() =
      code_version.substr(0, std::min(digits, kShownDigits)) + code_version.substr(digits);
}

std::string Commit() { return TheCommit(); }

std::string VersionLine(const std::string& program) {
  return absl::StrCat(program, " ", Version(), " (protocol ", kProtocolVersion,
                      Commit().empty() ? "" : ", commit ", Commit(), ")");
}

}  // namespace muster
