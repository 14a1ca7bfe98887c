#include "worker/data/formats/image_folder.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr size_t kMostFolderLevels = 64;

bool IsHidden(const FileInfo& entry) { return absl::StartsWith(entry.name, "."); }

// Of a folder, or of a link to one.
absl::StatusOr<bool> IsFolder(FileSystem& fs, const std::string& path, const FileInfo& entry) {
  if (entry.is_directory || !entry.is_link) return entry.is_directory;
  const auto size = fs.FileSize(path);
  if (size.ok()) return false;
  if (absl::IsFailedPrecondition(size.status())) return fs.List(path).ok();
  return size.status();
}

// The classes of a folder, and what lies beside them.
absl::StatusOr<std::vector<std::string>> FindClasses(FileSystem& fs, const std::string& folder,
                                                     IndexReport& report) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> entries, fs.List(folder));
  std::vector<std::string> classes;
  for (const FileInfo& entry : entries) {
    if (IsHidden(entry)) continue;
    const std::string path = absl::StrCat(folder, "/", entry.name);
    MUSTER_ASSIGN_OR_RETURN(const bool is_folder, IsFolder(fs, path, entry));
    if (is_folder) {
      classes.push_back(entry.name);
    } else {
      report.LeaveOut(absl::StrCat(path, " lies beside the folders of the classes"));
    }
  }
  std::sort(classes.begin(), classes.end());
  if (!classes.empty()) return classes;
  return absl::InvalidArgumentError(
      absl::StrCat(folder, " has no folders: want one for each class, with its pictures in it"));
}

// Walks one class: its pictures in byte order, folder after folder.
class ClassWalk {
 public:
  ClassWalk(FileSystem& fs, const std::string& folder, const ImageFolderOptions& options,
            SampleSink& sink, IndexReport& report)
      : fs_(fs), folder_(folder), options_(options), sink_(sink), report_(report) {}

  absl::Status Run(const std::string& name, int64_t label) {
    label_ = label;
    std::vector<std::string> waiting = {name};  // paths below the root
    while (!waiting.empty()) {
      const std::string below = std::move(waiting.back());
      waiting.pop_back();
      const size_t first_new = waiting.size();
      MUSTER_RETURN_IF_ERROR(AddFolder(below, waiting));
      std::reverse(waiting.begin() + static_cast<std::ptrdiff_t>(first_new), waiting.end());
    }
    return absl::OkStatus();
  }

 private:
  absl::Status AddFolder(const std::string& below, std::vector<std::string>& waiting) {
    if (static_cast<size_t>(std::count(below.begin(), below.end(), '/')) >= kMostFolderLevels) {
      return Bad(below, absl::StrCat("lies more than ", kMostFolderLevels, " folders deep"));
    }
    MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> entries,
                            fs_.List(absl::StrCat(folder_, "/", below)));
    std::string last_key;
    for (const FileInfo& entry : entries) {
      if (IsHidden(entry)) continue;
      const std::string path = absl::StrCat(below, "/", entry.name);
      if (entry.is_directory) {
        waiting.push_back(path);
        continue;
      }
      const size_t dot = entry.name.rfind('.');
      if (dot == std::string::npos ||
          !IsExtensionOf(absl::string_view(entry.name).substr(dot + 1), options_.extensions)) {
        MUSTER_RETURN_IF_ERROR(LeaveOut(path, entry));
        continue;
      }
      MUSTER_RETURN_IF_ERROR(AddPicture(path, entry, last_key));
    }
    return absl::OkStatus();
  }

  // Pictures with one key stand beside each other in byte order: all begin with it and a dot.
  absl::Status AddPicture(const std::string& path, const FileInfo& entry, std::string& last_key) {
    const absl::string_view key = NameOf(path).key;
    if (key == last_key) {
      return Bad(path, absl::StrCat("is the second picture with key ", key,
                                    ": rename it, since a key ends at the first dot"));
    }
    last_key = std::string(key);
    const std::string full = absl::StrCat(folder_, "/", path);
    uint64_t size = entry.size_bytes;
    if (entry.is_link) {
      MUSTER_ASSIGN_OR_RETURN(size, fs_.FileSize(full));
    }
    FoundSample sample;
    sample.key = last_key;
    sample.file = sink_.AddFile(full, size);
    sample.size = size;
    sample.label = label_;
    MUSTER_RETURN_IF_ERROR(sink_.Add(sample));
    ++report_.samples;
    return absl::OkStatus();
  }

  absl::Status LeaveOut(const std::string& path, const FileInfo& entry) {
    MUSTER_ASSIGN_OR_RETURN(const bool is_folder,
                            IsFolder(fs_, absl::StrCat(folder_, "/", path), entry));
    if (is_folder) return Bad(path, "is a link to a folder: only a class may be one");
    report_.LeaveOut(absl::StrCat(folder_, "/", path, " is no picture by its extension"));
    return absl::OkStatus();
  }

  absl::Status Bad(const std::string& path, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(folder_, "/", path, " ", what));
  }

  FileSystem& fs_;
  const std::string& folder_;
  const ImageFolderOptions& options_;
  SampleSink& sink_;
  IndexReport& report_;
  int64_t label_ = kNoLabel;
};

}  // namespace

absl::StatusOr<ImageFolderIndex> IndexImageFolder(FileSystem& fs, const std::string& folder,
                                                  const ImageFolderOptions& options,
                                                  SampleSink& sink) {
  ImageFolderIndex index;
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> found,
                          FindClasses(fs, folder, index.report));
  index.classes = options.classes.empty() ? found : options.classes;
  ClassWalk walk(fs, folder, options, sink, index.report);
  for (const std::string& name : found) {
    const auto place = std::find(index.classes.begin(), index.classes.end(), name);
    if (place == index.classes.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(folder, "/", name, " is no class of the training split"));
    }
    MUSTER_RETURN_IF_ERROR(walk.Run(name, std::distance(index.classes.begin(), place)));
  }
  if (index.report.samples > 0) return index;
  return absl::InvalidArgumentError(absl::StrCat(folder, " has folders, but no picture in them"));
}

}  // namespace muster::worker
