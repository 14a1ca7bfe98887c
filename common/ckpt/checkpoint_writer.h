// Writes one checkpoint folder by the commit protocol: files into `<name>.<nonce>.tmp`, each hashed
// while it is written and fsynced; the manifest last; fsync of the folder; and then, in a separate
// call, the rename and the fsync of the parent. Whoever dies in between leaves a .tmp folder that
// no reader looks at. Used by rank 0's saver, and by agents for commands. Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/ckpt/checkpoint_folder.h"
#include "common/ckpt/manifest.h"
#include "common/fs/file_system.h"

namespace muster {

using ByteSink = std::function<absl::Status(absl::string_view bytes)>;

class CheckpointWriter {
 public:
  // Makes `root` and the temporary folder. `folder.nonce` must be set. ALREADY_EXISTS when there is
  // such a temporary or published folder. `fs` must outlive the writer.
  static absl::StatusOr<std::unique_ptr<CheckpointWriter>> Create(FileSystem& fs, std::string root,
                                                                  CheckpointFolder folder);
  // Removes the temporary folder unless it was published or left.
  ~CheckpointWriter();
  // Leaves the temporary folder to RemoveStaleTemporaries: for whoever may not wait for the disk.
  void Leave() { left_ = true; }

  // Writes one file: `fill` appends its bytes. fs's codes; RESOURCE_EXHAUSTED: the disk is full;
  // INVALID_ARGUMENT: no reader takes a file of this name (CheckFileName).
  absl::Status AddFile(const std::string& name,
                       const std::function<absl::Status(const ByteSink&)>& fill);

  // Writes the manifest (its files, step, attempt and generation come from the writer; the rest
  // from `manifest`) and syncs the folder. Returns the manifest's SHA-256 in hex. INVALID_ARGUMENT:
  // no reader would take the manifest.
  absl::StatusOr<std::string> Finish(Manifest manifest);

  // Renames and syncs the parent. Requires Finish. After an error it is unknown whether the folder
  // got its name; it is whole in either case, and stays.
  absl::Status Publish();

  const std::string& published_path() const { return published_path_; }
  uint64_t bytes() const { return bytes_; }

 private:
  CheckpointWriter(FileSystem& fs, std::string root, CheckpointFolder folder);
  absl::Status WriteFile(const std::string& name,
                         const std::function<absl::Status(const ByteSink&)>& fill,
                         ManifestFile* written);

  FileSystem& fs_;
  const std::string root_;
  const CheckpointFolder folder_;
  const std::string temporary_path_;
  const std::string published_path_;
  std::vector<ManifestFile> files_;
  uint64_t bytes_ = 0;
  bool finished_ = false;
  bool publishing_ = false;
  bool left_ = false;
};

// Removes the .tmp folders in `root` that attempts before `attempt`, or earlier generations of it,
// left behind. OK when `root` is not there.
absl::Status RemoveStaleTemporaries(FileSystem& fs, const std::string& root, uint32_t attempt,
                                    uint32_t generation);

}  // namespace muster
