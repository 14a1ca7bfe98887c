#include "worker/agent/telemetry/spool_owner.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/log.h"

namespace muster::worker {
namespace {

constexpr uint64_t kMaxOwnerBytes = 4096;

std::string PathIn(const std::string& spool) { return absl::StrCat(spool, "/controller"); }

}  // namespace

std::string ReadSpoolOwner(FileSystem& fs, const std::string& spool) {
  const absl::StatusOr<std::string> text = fs.ReadFile(PathIn(spool), kMaxOwnerBytes);
  if (!text.ok()) return "";
  return absl::HexStringToBytes(absl::StripSuffix(*text, "\n"));
}

void WriteSpoolOwner(FileSystem& fs, const std::string& spool, const std::string& controller) {
  if (ReadSpoolOwner(fs, spool) == controller) return;
  const absl::Status written =
      WriteFileAtomically(fs, PathIn(spool), absl::BytesToHexString(controller) + "\n", 0600);
  if (written.ok()) return;
  Log(LogLevel::kWarning, "spool_owner_not_written", {{"error", written.ToString()}});
  fs.RemoveFile(PathIn(spool)).IgnoreError();
}

}  // namespace muster::worker
