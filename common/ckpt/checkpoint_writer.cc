#include "common/ckpt/checkpoint_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/fs/durable_folder.h"
#include "common/os/sha256.h"

namespace muster {
namespace {

std::string PublishedName(CheckpointFolder folder) {
  folder.nonce.clear();
  return FolderName(folder);
}

}  // namespace

CheckpointWriter::CheckpointWriter(FileSystem& fs, std::string root, CheckpointFolder folder)
    : fs_(fs),
      root_(std::move(root)),
      folder_(std::move(folder)),
      temporary_path_(absl::StrCat(root_, "/", FolderName(folder_))),
      published_path_(absl::StrCat(root_, "/", PublishedName(folder_))) {}

absl::StatusOr<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Create(
    FileSystem& fs, std::string root, CheckpointFolder folder) {
  MUSTER_CHECK(folder.temporary(), "a checkpoint is written under a temporary name");
  std::unique_ptr<CheckpointWriter> writer(
      new CheckpointWriter(fs, std::move(root), std::move(folder)));
  // Told before the work: a rename onto it would fail only at the end.
  for (const std::string* path : {&writer->temporary_path_, &writer->published_path_}) {
    const absl::StatusOr<bool> exists = fs.Exists(*path);
    if (!exists.ok() || *exists) {
      writer->publishing_ = true;  // not ours to remove
      return exists.ok() ? absl::AlreadyExistsError(absl::StrCat(*path, " is already there"))
                         : exists.status();
    }
  }
  // Somebody may have made it just now, and not waited for the disk.
  MUSTER_RETURN_IF_ERROR(MakeDurableFolder(fs, writer->root_));
  MUSTER_RETURN_IF_ERROR(fs.MakeDirectories(writer->temporary_path_));
  return writer;
}

CheckpointWriter::~CheckpointWriter() {
  // Best effort: what stays is removed by the next attempt.
  if (!publishing_ && !left_) fs_.RemoveTree(temporary_path_).IgnoreError();
}

absl::Status CheckpointWriter::WriteFile(const std::string& name,
                                         const std::function<absl::Status(const ByteSink&)>& fill,
                                         ManifestFile* written) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                          fs_.CreateExclusive(absl::StrCat(temporary_path_, "/", name)));
  BlockHasher hasher;
  MUSTER_RETURN_IF_ERROR(fill([&](absl::string_view bytes) {
    hasher.Update(bytes);
    return file->Append(bytes);
  }));
  MUSTER_RETURN_IF_ERROR(file->Sync());
  MUSTER_RETURN_IF_ERROR(file->Close());
  BlockHasher::Result result = hasher.Finish();
  *written = {name, result.size_bytes, result.whole, std::move(result.blocks)};
  bytes_ += result.size_bytes;
  return absl::OkStatus();
}

absl::Status CheckpointWriter::AddFile(const std::string& name,
                                       const std::function<absl::Status(const ByteSink&)>& fill) {
  MUSTER_CHECK(!finished_, "no file may follow the manifest");
  MUSTER_RETURN_IF_ERROR(CheckFileName(name));
  ManifestFile file;
  MUSTER_RETURN_IF_ERROR(WriteFile(name, fill, &file));
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::StatusOr<std::string> CheckpointWriter::Finish(Manifest manifest) {
  MUSTER_CHECK(!finished_, "a checkpoint is finished once");
  manifest.step = folder_.step;
  manifest.attempt = folder_.attempt;
  manifest.generation = folder_.generation;
  manifest.files = files_;
  const std::string text = EncodeManifest(manifest);
  // Each reader would condemn the checkpoint after it was called committed.
  if (const absl::Status readable = DecodeManifest(text).status(); !readable.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a manifest that no reader takes is not written: ", readable.message()));
  }
  ManifestFile ignored;
  MUSTER_RETURN_IF_ERROR(WriteFile(
      kManifestFile, [&](const ByteSink& sink) { return sink(text); }, &ignored));
  MUSTER_RETURN_IF_ERROR(fs_.SyncDirectory(temporary_path_));
  finished_ = true;
  return Sha256Hex(text);
}

absl::Status CheckpointWriter::Publish() {
  MUSTER_CHECK(finished_, "only a finished checkpoint is published");
  MUSTER_RETURN_IF_ERROR(fs_.Rename(temporary_path_, published_path_));
  publishing_ = true;
  return fs_.SyncDirectory(root_);
}

absl::Status RemoveStaleTemporaries(FileSystem& fs, const std::string& root, uint32_t attempt,
                                    uint32_t generation) {
  const absl::StatusOr<std::vector<FileInfo>> files = fs.List(root);
  if (absl::IsNotFound(files.status())) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(files.status());
  for (const FileInfo& file : *files) {
    const std::optional<CheckpointFolder> folder = ParseFolderName(file.name);
    if (!folder.has_value() || !folder->temporary()) continue;
    if (std::pair(folder->attempt, folder->generation) < std::pair(attempt, generation)) {
      MUSTER_RETURN_IF_ERROR(fs.RemoveTree(absl::StrCat(root, "/", file.name)));
    }
  }
  return absl::OkStatus();
}

}  // namespace muster
