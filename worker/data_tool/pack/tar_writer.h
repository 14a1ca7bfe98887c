// Writes a tar of plain files, as WebDataset reads them: POSIX ustar, with a PAX record for a name
// that is longer than 100 bytes (POSIX 1003.1-2001, "pax Interchange Format"). The same members
// give the same bytes: no times, no owners.
//
// Used by Packer. The file appears under its name when it is whole; what a failed or killed writer
// leaves is the file at `part`, which the next one replaces. One thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"

namespace muster::worker {

class TarWriter {
 public:
  // `part` must be on the file system of `path`. The errors of FileSystem.
  static absl::StatusOr<std::unique_ptr<TarWriter>> Create(FileSystem& fs, std::string path,
                                                           std::string part);
  // Of one that was not finished: removes the part.
  ~TarWriter();
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;

  // Requires a name without a zero byte, and a member of less than 8 GiB.
  absl::Status Add(absl::string_view name, absl::string_view bytes);
  // Once, as the last: ends the archive, syncs and renames it.
  absl::Status Finish();

 private:
  TarWriter(FileSystem& fs, std::string path, std::string part, std::unique_ptr<WritableFile> file)
      : fs_(fs), path_(std::move(path)), part_(std::move(part)), file_(std::move(file)) {}
  absl::Status Write(absl::string_view bytes);
  absl::Status Flush();
  absl::Status WriteMember(absl::string_view name, char type, absl::string_view bytes);

  FileSystem& fs_;
  const std::string path_;
  const std::string part_;
  std::unique_ptr<WritableFile> file_;
  std::string buffer_;
  bool finished_ = false;
};

}  // namespace muster::worker
