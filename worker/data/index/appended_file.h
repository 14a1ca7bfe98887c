// A file that is written once from front to back, in large pieces. Used by who makes an index. One
// thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"

namespace muster::worker {

class AppendedFile {
 public:
  static absl::StatusOr<AppendedFile> Create(FileSystem& fs, const std::string& path);

  absl::Status Append(absl::string_view bytes);
  // All of another file. `progress` is called now and then; its error ends it.
  absl::Status AppendFile(FileSystem& fs, const std::string& path,
                          const std::function<absl::Status()>& progress);
  absl::Status Flush();
  absl::Status SyncAndClose();

 private:
  explicit AppendedFile(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}

  std::unique_ptr<WritableFile> file_;
  std::string waiting_;
};

}  // namespace muster::worker
