#include "cli/submission/spec_file.h"

#include "absl/strings/str_cat.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

constexpr uint64_t kMaxSpecBytes = 1 << 20;

}  // namespace

std::string BaseDirOfSpec(const std::string& file) {
  const size_t slash = file.rfind('/');
  if (file == "-" || slash == std::string::npos) return WorkingDirectory();
  if (file[0] == '/') return slash == 0 ? "/" : file.substr(0, slash);
  return absl::StrCat(WorkingDirectory(), "/", file.substr(0, slash));
}

absl::StatusOr<std::string> ReadSpecText(const std::string& file, Session& session) {
  if (file != "-") {
    auto text = session.fs().ReadFile(file, kMaxSpecBytes);
    if (text.ok()) return text;
    // Whatever is wrong with the file, the command line is what to correct.
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read the job file: ", text.status().message()));
  }
  std::string text(kMaxSpecBytes + 1, '\0');
  session.host().in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(session.host().in.gcount()));
  if (text.size() > kMaxSpecBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the job on stdin is longer than ", HumanBytes(kMaxSpecBytes)));
  }
  return text;
}

}  // namespace muster::cli
