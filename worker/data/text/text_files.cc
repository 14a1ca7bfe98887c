#include "worker/data/text/text_files.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr int kMostDepth = 32;  // of folders: links may lead back

absl::Status AddFolder(FileSystem& fs, const std::string& folder, int depth,
                       std::vector<TextFile>& files) {
  if (depth > kMostDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": more than ", kMostDepth, " folders deep"));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> entries, fs.List(folder));
  for (const FileInfo& entry : entries) {
    if (absl::StartsWith(entry.name, ".")) continue;
    const std::string path = absl::StrCat(folder, "/", entry.name);
    if (entry.is_directory) {
      MUSTER_RETURN_IF_ERROR(AddFolder(fs, path, depth + 1, files));
    } else {
      files.push_back({path, entry.size_bytes});
    }
    if (files.size() > kMaxTextFiles) {
      return absl::InvalidArgumentError(
          absl::StrCat(folder, ": more than ", kMaxTextFiles, " text files"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TextFile>> FindTextFiles(FileSystem& fs, const std::string& path) {
  std::vector<TextFile> files;
  MUSTER_ASSIGN_OR_RETURN(const bool exists, fs.Exists(path));
  if (!exists) {
    return absl::NotFoundError(absl::StrCat(path, " is not there: name a text file or a folder"));
  }
  if (fs.List(path).ok()) {
    MUSTER_RETURN_IF_ERROR(AddFolder(fs, path, 0, files));
    if (files.empty()) return absl::NotFoundError(absl::StrCat(path, " holds no text file"));
  } else {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t size_bytes, fs.FileSize(path));
    files.push_back({path, size_bytes});
  }
  return files;
}

}  // namespace muster::worker
