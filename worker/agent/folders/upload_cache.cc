#include "worker/agent/folders/upload_cache.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/os/sha256.h"
#include "common/upload/limits.h"

namespace muster::worker {
namespace {

bool IsArchiveOf(const std::string& sha256, const std::string& archive) {
  return Sha256Hex(archive) == sha256;
}

}  // namespace

absl::StatusOr<std::string> UploadCache::Get(const std::string& sha256) {
  if (!IsSha256Hex(sha256)) return absl::InvalidArgumentError("upload: that is no SHA-256");
  last_use_[sha256] = ++uses_;
  absl::StatusOr<std::string> kept = fs_.ReadFile(PathOf(sha256), kMaxUploadBytes);
  if (kept.ok() && IsArchiveOf(sha256, *kept)) return kept;
  if (!absl::IsNotFound(kept.status())) {
    Log(LogLevel::kWarning, "broken_upload_dropped", {{"upload", sha256}});
    MUSTER_RETURN_IF_ERROR(fs_.RemoveFile(PathOf(sha256)));
  }
  return absl::NotFoundError(absl::StrCat("upload ", sha256, " is not kept here"));
}

absl::Status UploadCache::Put(const std::string& sha256, const std::string& archive) {
  if (!IsArchiveOf(sha256, archive)) {
    return absl::DataLossError(
        absl::StrCat("upload ", sha256, ": what the controller sent is something else"));
  }
  Keep(sha256, archive);
  return absl::OkStatus();
}

void UploadCache::Keep(const std::string& sha256, const std::string& archive) {
  absl::Status kept = fs_.MakeDirectories(folder_);
  if (kept.ok()) kept = WriteFileAtomically(fs_, PathOf(sha256), archive);
  // It is only a cache.
  if (!kept.ok()) Log(LogLevel::kWarning, "upload_not_kept", {{"error", kept.ToString()}});
  Trim(sha256);
}

void UploadCache::Trim(const std::string& but) {
  const absl::StatusOr<std::vector<FileInfo>> files = fs_.List(folder_);
  if (!files.ok()) return;
  uint64_t total_bytes = 0;
  std::multimap<uint64_t, const FileInfo*> by_use;
  for (const FileInfo& file : *files) {
    total_bytes += file.size_bytes;
    const auto it = last_use_.find(file.name);
    if (file.name != but) by_use.emplace(it == last_use_.end() ? 0 : it->second, &file);
  }
  for (const auto& [use, file] : by_use) {
    if (total_bytes <= max_bytes_) return;
    if (!fs_.RemoveFile(PathOf(file->name)).ok()) continue;
    total_bytes -= file->size_bytes;
    last_use_.erase(file->name);
  }
}

}  // namespace muster::worker
