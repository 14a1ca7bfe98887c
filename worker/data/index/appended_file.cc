#include "worker/data/index/appended_file.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr size_t kPieceBytes = 1u << 20;

}  // namespace

absl::StatusOr<AppendedFile> AppendedFile::Create(FileSystem& fs, const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, fs.CreateExclusive(path));
  return AppendedFile(std::move(file));
}

absl::Status AppendedFile::Append(absl::string_view bytes) {
  absl::StrAppend(&waiting_, bytes);
  return waiting_.size() < kPieceBytes ? absl::OkStatus() : Flush();
}

absl::Status AppendedFile::AppendFile(FileSystem& fs, const std::string& path,
                                      const std::function<absl::Status()>& progress) {
  std::string buffer(kPieceBytes, '\0');
  for (uint64_t offset = 0;;) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                            fs.ReadAt(path, offset, buffer.data(), buffer.size()));
    MUSTER_RETURN_IF_ERROR(progress());
    if (got == 0) return absl::OkStatus();
    MUSTER_RETURN_IF_ERROR(Append(absl::string_view(buffer).substr(0, got)));
    offset += got;
  }
}

absl::Status AppendedFile::Flush() {
  MUSTER_RETURN_IF_ERROR(file_->Append(waiting_));
  waiting_.clear();
  return absl::OkStatus();
}

absl::Status AppendedFile::SyncAndClose() {
  MUSTER_RETURN_IF_ERROR(Flush());
  MUSTER_RETURN_IF_ERROR(file_->Sync());
  return file_->Close();
}

}  // namespace muster::worker
