#include "common/upload/unpack_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "common/upload/limits.h"
#include "common/upload/symlink_rules.h"
#include "muster/v1/upload_service.pb.h"

namespace muster {
namespace {

constexpr mode_t kFolderMode = 0755;

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("uploaded folder: ", what));
}

std::string Shown(absl::string_view path) { return absl::CHexEscape(path.substr(0, 200)); }

absl::Status NotUnpacked(absl::string_view path) {
  const int error = errno;
  const std::string text =
      absl::StrCat("uploaded folder: ", Shown(path), ": ", ::strerrordesc_np(error));
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(text);
  // What is in the way of a path, or not there above it, the archive itself has put there or left
  // out.
  if (error == ENOENT || error == ENOTDIR || error == EEXIST || error == ELOOP ||
      error == ENAMETOOLONG || error == EINVAL || error == EILSEQ) {
    return absl::InvalidArgumentError(text);
  }
  return absl::UnavailableError(text);
}

// Writes below one folder, going down part by part and never through a link.
class Unpacker {
 public:
  explicit Unpacker(UniqueFd root) : root_(std::move(root)) {}

  absl::Status Add(const v1::FolderEntry& entry) {
    MUSTER_ASSIGN_OR_RETURN(const Place place, Find(entry.path()));
    switch (entry.kind()) {
      case v1::FolderEntry::FOLDER:
        if (::mkdirat(place.fd(), place.name.c_str(), kFolderMode) != 0 ||
            ::fchmodat(place.fd(), place.name.c_str(), kFolderMode, 0) != 0) {
          return NotUnpacked(entry.path());
        }
        return absl::OkStatus();
      case v1::FolderEntry::LINK:
        if (!StaysInside(entry.path(), entry.target())) {
          return Bad(absl::StrCat("link ", Shown(entry.path()), " leaves it"));
        }
        if (::symlinkat(entry.target().c_str(), place.fd(), place.name.c_str()) != 0) {
          return NotUnpacked(entry.path());
        }
        return absl::OkStatus();
      case v1::FolderEntry::FILE:
        return WriteFile(entry, place);
      default:
        return Bad(absl::StrCat(Shown(entry.path()), " is of no known kind"));
    }
  }

 private:
  struct Place {
    UniqueFd folder;  // of the entry; none: the root
    int root;
    std::string name;
    int fd() const { return folder.valid() ? folder.get() : root; }
  };

  absl::StatusOr<Place> Find(const std::string& path) {
    Place place{.folder = UniqueFd(), .root = root_.get(), .name = ""};
    const std::vector<std::string> parts = absl::StrSplit(path, '/');
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      UniqueFd next(
          ::openat(place.fd(), parts[i].c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!next.valid()) return NotUnpacked(path);
      place.folder = std::move(next);
    }
    place.name = parts.back();
    return place;
  }

  static absl::Status WriteFile(const v1::FolderEntry& entry, const Place& place) {
    const mode_t mode = entry.executable() ? 0755 : 0644;
    const UniqueFd file(::openat(place.fd(), place.name.c_str(),
                                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!file.valid() || ::fchmod(file.get(), mode) != 0) return NotUnpacked(entry.path());
    absl::string_view left = entry.content();
    while (!left.empty()) {
      const ssize_t written = ::write(file.get(), left.data(), left.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return NotUnpacked(entry.path());
      left.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }

  const UniqueFd root_;
};

}  // namespace

absl::Status UnpackFolder(absl::string_view archive, const std::string& into) {
  if (archive.size() > kMaxUploadBytes) return Bad("larger than it may be");
  if (::mkdir(into.c_str(), kFolderMode) != 0) {
    return absl::UnavailableError(absl::StrCat(into, ": ", ::strerrordesc_np(errno)));
  }
  UniqueFd root(::open(into.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!root.valid() || ::fchmod(root.get(), kFolderMode) != 0) {
    return absl::UnavailableError(absl::StrCat(into, ": ", ::strerrordesc_np(errno)));
  }
  Unpacker unpacker(std::move(root));
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(archive.data()),
                                               static_cast<int>(archive.size()));
  std::string last;
  size_t entries = 0;
  while (static_cast<size_t>(input.CurrentPosition()) < archive.size()) {
    uint32_t bytes = 0;
    if (!input.ReadVarint32(&bytes)) return Bad("it ends early");
    const size_t at = static_cast<size_t>(input.CurrentPosition());
    v1::FolderEntry entry;
    if (bytes > archive.size() - at) return Bad("it ends early");
    if (!entry.ParseFromArray(archive.data() + at, static_cast<int>(bytes)) ||
        !input.Skip(static_cast<int>(bytes))) {
      return Bad("it holds what is no entry");
    }
    if (++entries > kMaxUploadEntries) return Bad("it has too many entries");
    if (!IsUploadPath(entry.path())) {
      return Bad(absl::StrCat("`", Shown(entry.path()), "` is no path in it"));
    }
    if (entry.path() <= last) return Bad("its entries are not sorted");
    last = entry.path();
    MUSTER_RETURN_IF_ERROR(unpacker.Add(entry));
  }
  return absl::OkStatus();
}

}  // namespace muster
