#include "worker/agent/command/job_checkpoint_files.h"

#include <sys/stat.h>

#include <utility>

#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr mode_t kFolderMode = 0755;  // as FileSystem makes them

class JobFile final : public WritableFile {
 public:
  JobFile(std::unique_ptr<WritableFile> file, std::string path, std::shared_ptr<PathWatch> watch)
      : file_(std::move(file)), path_(std::move(path)), watch_(std::move(watch)) {}

  absl::Status Append(absl::string_view bytes) override {
    watch_->Touch(path_);
    MUSTER_RETURN_IF_ERROR(file_->Append(bytes));
    unsynced_bytes_ += bytes.size();
    return unsynced_bytes_ < JobCheckpointFiles::kSyncBytes ? absl::OkStatus() : Sync();
  }
  absl::Status Sync() override {
    watch_->Touch(path_);
    unsynced_bytes_ = 0;
    return file_->Sync();
  }
  absl::Status Close() override {
    watch_->Touch(path_);
    return file_->Close();
  }

 private:
  const std::unique_ptr<WritableFile> file_;
  const std::string path_;
  const std::shared_ptr<PathWatch> watch_;
  uint64_t unsynced_bytes_ = 0;
};

}  // namespace

void JobCheckpointFiles::OpenToOthers(const std::string& path, mode_t mode) {
  // A file system that knows no modes needs none.
  if (mask_.has_value()) ::chmod(path.c_str(), mode & ~*mask_);
}

absl::StatusOr<std::unique_ptr<WritableFile>> JobCheckpointFiles::CreateExclusive(
    const std::string& path, uint32_t mode) {
  watch_->Touch(path);
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, fs_.CreateExclusive(path, mode));
  OpenToOthers(path, mode);
  return std::make_unique<JobFile>(std::move(file), path, watch_);
}

absl::Status JobCheckpointFiles::MakeDirectories(const std::string& path) {
  watch_->Touch(path);
  // Only what it makes is its own to open: from the first part that is not there yet.
  size_t end = path.find('/', 1);
  while (end != std::string::npos) {
    MUSTER_ASSIGN_OR_RETURN(const bool exists, fs_.Exists(path.substr(0, end)));
    if (!exists) break;
    end = path.find('/', end + 1);
  }
  MUSTER_ASSIGN_OR_RETURN(const bool was_there, fs_.Exists(path));
  MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(path));
  for (; end != std::string::npos; end = path.find('/', end + 1)) {
    OpenToOthers(path.substr(0, end), kFolderMode);
  }
  if (!was_there) OpenToOthers(path, kFolderMode);
  return absl::OkStatus();
}

absl::StatusOr<std::string> JobCheckpointFiles::ReadFile(const std::string& path,
                                                         uint64_t max_bytes) {
  watch_->Touch(path);
  return fs_.ReadFile(path, max_bytes);
}

absl::StatusOr<uint64_t> JobCheckpointFiles::ReadAt(const std::string& path, uint64_t offset,
                                                    char* buffer, uint64_t buffer_bytes) {
  watch_->Touch(path);
  return fs_.ReadAt(path, offset, buffer, buffer_bytes);
}

absl::StatusOr<uint64_t> JobCheckpointFiles::FileSize(const std::string& path) {
  watch_->Touch(path);
  return fs_.FileSize(path);
}

absl::StatusOr<bool> JobCheckpointFiles::Exists(const std::string& path) {
  watch_->Touch(path);
  return fs_.Exists(path);
}

absl::StatusOr<std::vector<FileInfo>> JobCheckpointFiles::List(const std::string& directory) {
  watch_->Touch(directory);
  return fs_.List(directory);
}

absl::Status JobCheckpointFiles::Rename(const std::string& from, const std::string& to) {
  watch_->Touch(to);
  return fs_.Rename(from, to);
}

absl::Status JobCheckpointFiles::SyncDirectory(const std::string& path) {
  watch_->Touch(path);
  return fs_.SyncDirectory(path);
}

absl::Status JobCheckpointFiles::RemoveFile(const std::string& path) {
  watch_->Touch(path);
  return fs_.RemoveFile(path);
}

absl::Status JobCheckpointFiles::RemoveTree(const std::string& path) {
  watch_->Touch(path);
  return fs_.RemoveTree(path);
}

}  // namespace muster::worker
