#include "common/fs/remove_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "common/fs/errno_status.h"
#include "common/fs/open_beneath.h"

namespace muster {
namespace {

// Folders held open at a time; what lies deeper is moved up.
constexpr size_t kMaxOpenLevels = 32;
// Looks at one folder that others fill while it is emptied.
constexpr int kMaxLooks = 16;
constexpr mode_t kOwnersFolder = 0700;

// By a descriptor that need not be readable: no name is followed a second time.
int LetOwnerWrite(int folder, const char* name) {
  const UniqueFd fd(::openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return errno;
  // chmod has no form for such descriptors but this link of the kernel's own.
  const std::string link = absl::StrCat("/proc/self/fd/", fd.get());
  return ::chmod(link.c_str(), kOwnersFolder) == 0 ? 0 : errno;
}

struct ParentAndName {
  UniqueFd parent;
  std::string name;
};

// NOT_FOUND: the parent is not there. INVALID_ARGUMENT: the path ends in no name.
absl::StatusOr<ParentAndName> Split(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  ParentAndName split;
  split.name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (split.name.empty() || split.name == "." || split.name == "..") {
    return absl::InvalidArgumentError(absl::StrCat("`", path, "` names nothing that can go"));
  }
  split.parent.Reset(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!split.parent.valid()) return FileErrno(errno, "open folder", folder);
  return split;
}

class TreeRemover {
 public:
  explicit TreeRemover(const std::string& path) : path_(path) {}

  absl::Status Run() {
    MUSTER_ASSIGN_OR_RETURN(const ParentAndName top, Split(path_));
    parent_ = top.parent.get();
    RemoveEntry(top.name.c_str(), DT_UNKNOWN);
    while (!levels_.empty()) Step();
    if (failures_ < 2) return first_failure_;
    return absl::Status(first_failure_.code(),
                        absl::StrCat(first_failure_.message(), "; and ", failures_ - 1, " more"));
  }

 private:
  struct Level {
    std::string name;  // in the level above
    std::unique_ptr<DIR, int (*)(DIR*)> folder{nullptr, &::closedir};
    int looks = 1;
    bool made_writable = false;
    bool look_again = false;  // what was moved here may not have been listed
    bool keeps_some = false;  // something in it does not go
  };

  int At() const { return levels_.empty() ? parent_ : ::dirfd(levels_.back().folder.get()); }

  void Step() {
    errno = 0;
    const dirent* entry = ::readdir(levels_.back().folder.get());
    if (entry == nullptr) {
      if (errno != 0) Fail(errno, "list", "");
      return Leave();
    }
    const std::string name = entry->d_name;
    if (name != "." && name != "..") RemoveEntry(name.c_str(), entry->d_type);
  }

  // Of the innermost level, all of whose entries were seen.
  void Leave() {
    Level& level = levels_.back();
    if (std::exchange(level.look_again, false)) return ::rewinddir(level.folder.get());
    if (!level.keeps_some) {
      const int above =
          levels_.size() > 1 ? ::dirfd(levels_[levels_.size() - 2].folder.get()) : parent_;
      if (::unlinkat(above, level.name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
        const int error = errno;
        const bool filled = error == ENOTEMPTY || error == EEXIST;
        if (filled && level.looks++ < kMaxLooks) return ::rewinddir(level.folder.get());
        const bool unlocked = error == EACCES && levels_.size() > 1 && UnlockAbove();
        if (unlocked && ::unlinkat(above, level.name.c_str(), AT_REMOVEDIR) == 0) {
          levels_.pop_back();
          return;
        }
        Fail(error, "remove", "");
      }
    }
    const bool keeps_some = level.keeps_some;
    levels_.pop_back();
    if (keeps_some && !levels_.empty()) levels_.back().keeps_some = true;
  }

  void RemoveEntry(const char* name, unsigned char type) {
    if (type != DT_DIR && TryUnlink(name, 0)) return;
    const bool may_be_folder = type == DT_DIR || errno == EISDIR || errno == EPERM;
    if (!may_be_folder) return Fail(errno, "remove", name);
    const int unlink_error = errno;
    if (TryUnlink(name, AT_REMOVEDIR)) return;
    if (errno == ENOTDIR) {
      // It is none, or was replaced by what is none since it was listed.
      if (type != DT_DIR) return Fail(unlink_error, "remove", name);
      if (!TryUnlink(name, 0)) Fail(errno, "remove", name);
      return;
    }
    if (errno != ENOTEMPTY && errno != EEXIST) return Fail(errno, "remove", name);
    levels_.size() < kMaxOpenLevels ? Enter(name) : MoveUp(name);
  }

  // True when it is gone.
  bool TryUnlink(const char* name, int flags) {
    if (::unlinkat(At(), name, flags) == 0 || errno == ENOENT) return true;
    if (errno != EACCES || levels_.empty() || !Unlock(levels_.back())) return false;
    return ::unlinkat(At(), name, flags) == 0 || errno == ENOENT;
  }

  static bool Unlock(Level& level) {
    if (std::exchange(level.made_writable, true)) return false;
    return ::fchmod(::dirfd(level.folder.get()), kOwnersFolder) == 0;
  }
  bool UnlockAbove() { return Unlock(levels_[levels_.size() - 2]); }

  void Enter(const char* name) {
    constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
    absl::StatusOr<UniqueFd> fd = OpenBeneath(At(), name, kFlags, Links::kNone);
    const bool locked = absl::IsPermissionDenied(fd.status()) && LetOwnerWrite(At(), name) == 0;
    if (locked) fd = OpenBeneath(At(), name, kFlags, Links::kNone);
    if (absl::IsNotFound(fd.status())) return;  // gone, or replaced: the next look tells
    if (!fd.ok()) {
      struct stat info = {};
      const bool replaced =
          ::fstatat(At(), name, &info, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(info.st_mode);
      if (!replaced || !TryUnlink(name, 0)) Note(fd.status());
      return;
    }
    Level level;
    level.name = name;
    level.made_writable = locked;
    level.folder.reset(::fdopendir(fd->get()));
    if (level.folder == nullptr) return Fail(errno, "list", name);
    fd->Release();
    levels_.push_back(std::move(level));
  }

  // To the top, where it is found again.
  void MoveUp(const char* name) {
    const int top = ::dirfd(levels_.front().folder.get());
    const auto move = [&] {
      const std::string unused = absl::StrCat(".removing-", moved_++);
      return ::renameat2(At(), name, top, unused.c_str(), RENAME_NOREPLACE) == 0;
    };
    bool moved = move();
    while (!moved && errno == EEXIST) moved = move();
    if (!moved && errno == EACCES) {
      // The folder that is moved must be writable too, and so must the top.
      Unlock(levels_.back());
      Unlock(levels_.front());
      LetOwnerWrite(At(), name);
      moved = move();
    }
    if (moved) levels_.front().look_again = true;
    if (!moved && errno != ENOENT) Fail(errno, "move up", name);
  }

  void Fail(int error, absl::string_view action, absl::string_view name) {
    std::string path = path_;
    for (size_t i = 1; i < levels_.size(); ++i) absl::StrAppend(&path, "/", levels_[i].name);
    if (!name.empty() && !levels_.empty()) absl::StrAppend(&path, "/", name);
    if (error == ENOTEMPTY) {
      return Note(absl::FailedPreconditionError(
          absl::StrCat("cannot remove ", path, ": others keep filling it")));
    }
    if (error == EBUSY) {
      return Note(absl::FailedPreconditionError(
          absl::StrCat("cannot remove ", path, ": it is mounted, or in use by the system")));
    }
    Note(FileErrno(error, action, path));
  }

  void Note(const absl::Status& failure) {
    if (failures_++ == 0) first_failure_ = failure;
    if (!levels_.empty()) levels_.back().keeps_some = true;
  }

  const std::string path_;
  int parent_ = -1;
  std::vector<Level> levels_;
  uint64_t moved_ = 0;
  uint64_t failures_ = 0;
  absl::Status first_failure_;
};

}  // namespace

absl::Status RemoveTreeByDescriptors(const std::string& path) {
  const absl::Status removed = TreeRemover(path).Run();
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

absl::Status MakeFolderWritable(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const ParentAndName at, Split(path));
  const int error = LetOwnerWrite(at.parent.get(), at.name.c_str());
  return error == 0 ? absl::OkStatus() : FileErrno(error, "make writable", path);
}

}  // namespace muster
