#include "common/upload/pack_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "common/base/units.h"
#include "common/os/sha256.h"
#include "common/upload/ignore_rules.h"
#include "common/upload/limits.h"
#include "common/upload/symlink_rules.h"
#include "muster/v1/upload_service.pb.h"

namespace muster {
namespace {

constexpr uint64_t kMaxIgnoreBytes = 1 << 20;
constexpr char kTooLarge[] =
    "; leave out what it need not hold by .musterignore, and keep data sets where workers see them";

absl::Status Bad(absl::string_view folder, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("upload of ", folder, ": ", what));
}

absl::Status NotPacked(absl::string_view path) {
  const std::string text = absl::StrCat("upload: ", path, ": ", ::strerrordesc_np(errno));
  if (errno == EACCES || errno == EPERM) return absl::PermissionDeniedError(text);
  if (errno == ENOENT || errno == ENOTDIR) return absl::InvalidArgumentError(text);
  return absl::UnavailableError(text);
}

// The whole file, unless it is longer than `most`: then one byte more than that.
absl::StatusOr<std::string> ReadUpTo(const std::string& path, uint64_t most) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file.valid()) return NotPacked(path);
  std::string content;
  std::vector<char> buffer(256 << 10);
  while (content.size() <= most) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return NotPacked(path);
    if (got == 0) break;
    content.append(buffer.data(), static_cast<size_t>(got));
  }
  if (content.size() > most) content.resize(most + 1);
  return content;
}

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), &::closedir);
  if (directory == nullptr) return NotPacked(folder);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) return NotPacked(folder);
  return names;
}

class Packer {
 public:
  Packer(std::string folder, IgnoreRules rules)
      : folder_(std::move(folder)), rules_(std::move(rules)) {}

  absl::Status Scan(const std::string& below) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(Full(below)));
    for (const std::string& name : names) {
      const std::string path = below.empty() ? name : absl::StrCat(below, "/", name);
      struct stat info = {};
      if (::lstat(Full(path).c_str(), &info) != 0) return NotPacked(Full(path));
      if (rules_.Ignores(path, S_ISDIR(info.st_mode))) continue;
      if (!IsUploadPath(path)) return Bad(folder_, absl::StrCat(path, " is too long or too deep"));
      found_.push_back({path, info.st_mode});
      if (found_.size() > kMaxUploadEntries) {
        return Bad(folder_, absl::StrCat("it has more than ", kMaxUploadEntries,
                                         " files and folders", kTooLarge));
      }
      if (S_ISDIR(info.st_mode)) MUSTER_RETURN_IF_ERROR(Scan(path));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<PackedFolder> Pack() {
    if (found_.empty()) return Bad(folder_, "there is nothing in it");
    std::sort(found_.begin(), found_.end(),
              [](const Found& a, const Found& b) { return a.path < b.path; });
    PackedFolder packed;
    packed.entries = found_.size();
    for (const Found& found : found_) {
      MUSTER_ASSIGN_OR_RETURN(const v1::FolderEntry entry, Read(found, packed.archive.size()));
      Append(entry, packed.archive);
      if (packed.archive.size() > kMaxUploadBytes) return TooLarge();
    }
    Sha256 hash;
    hash.Update(packed.archive);
    packed.sha256 = hash.FinishHex();
    return packed;
  }

 private:
  struct Found {
    std::string path;
    mode_t mode = 0;
  };

  std::string Full(const std::string& path) const {
    return path.empty() ? folder_ : absl::StrCat(folder_, "/", path);
  }
  absl::Status TooLarge() const {
    return Bad(folder_, absl::StrCat("it is larger than ", HumanBytes(kMaxUploadBytes), kTooLarge));
  }

  absl::StatusOr<v1::FolderEntry> Read(const Found& found, uint64_t packed_bytes) {
    v1::FolderEntry entry;
    entry.set_path(found.path);
    if (S_ISDIR(found.mode)) {
      entry.set_kind(v1::FolderEntry::FOLDER);
    } else if (S_ISREG(found.mode)) {
      entry.set_kind(v1::FolderEntry::FILE);
      entry.set_executable((found.mode & S_IXUSR) != 0);
      const uint64_t most = kMaxUploadBytes - packed_bytes;
      MUSTER_ASSIGN_OR_RETURN(*entry.mutable_content(), ReadUpTo(Full(found.path), most));
      if (entry.content().size() > most) return TooLarge();
    } else if (S_ISLNK(found.mode)) {
      entry.set_kind(v1::FolderEntry::LINK);
      std::string target(kMaxUploadPathBytes + 1, '\0');
      const ssize_t size = ::readlink(Full(found.path).c_str(), target.data(), target.size());
      if (size < 0) return NotPacked(Full(found.path));
      target.resize(static_cast<size_t>(size));
      if (!StaysInside(found.path, target)) {
        return Bad(folder_, absl::StrCat("link ", found.path, " -> ", target,
                                         " leaves it, or may: leave it out by .musterignore"));
      }
      entry.set_target(target);
    } else {
      return Bad(folder_, absl::StrCat(found.path, " is neither a file, a folder nor a link"));
    }
    return entry;
  }

  static void Append(const v1::FolderEntry& entry, std::string& archive) {
    google::protobuf::io::StringOutputStream output(&archive);
    google::protobuf::io::CodedOutputStream coded(&output);
    coded.SetSerializationDeterministic(true);
    coded.WriteVarint32(static_cast<uint32_t>(entry.ByteSizeLong()));
    entry.SerializeToCodedStream(&coded);
  }

  const std::string folder_;
  const IgnoreRules rules_;
  std::vector<Found> found_;
};

}  // namespace

absl::StatusOr<PackedFolder> PackFolder(const std::string& folder) {
  struct stat info = {};
  if (::stat(folder.c_str(), &info) != 0) return NotPacked(folder);
  if (!S_ISDIR(info.st_mode)) return Bad(folder, "it is no folder");
  std::string ignore;
  const std::string ignore_file = absl::StrCat(folder, "/", kIgnoreFile);
  if (::lstat(ignore_file.c_str(), &info) == 0) {
    MUSTER_ASSIGN_OR_RETURN(ignore, ReadUpTo(ignore_file, kMaxIgnoreBytes));
  }
  Packer packer(folder, IgnoreRules(ignore));
  MUSTER_RETURN_IF_ERROR(packer.Scan(""));
  return packer.Pack();
}

}  // namespace muster
