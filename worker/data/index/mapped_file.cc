#include "worker/data/index/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

// statfs(2) of the file systems that machines share; the last ones are not in linux/magic.h.
constexpr uint32_t kSharedDisks[] = {
    0x6969,                              // NFS
    0x517b,     0xfe534d42, 0xff534d42,  // SMB
    0x0bd00bd0,                          // Lustre
    0x00c36400,                          // Ceph
    0x65735546,                          // FUSE: sshfs, GlusterFS, ...
    0x01021997,                          // 9p
    0x5346414f,                          // AFS
    0x47504653,                          // GPFS
    0x19830326,                          // BeeGFS
};

absl::Status MapError(const std::string& path, int error) {
  const std::string text = absl::StrCat(path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(text);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  return absl::UnavailableError(text);
}

bool IsShared(const UniqueFd& fd) {
  struct statfs disk = {};
  return ::fstatfs(fd.get(), &disk) == 0 &&
         std::count(std::begin(kSharedDisks), std::end(kSharedDisks),
                    static_cast<uint32_t>(disk.f_type)) > 0;
}

// Held by a shared lock where there are locks.
absl::StatusOr<UniqueFd> OpenHeld(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return MapError(path, errno);
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return MapError(path, errno);
  if (!S_ISREG(info.st_mode)) return MapError(path, EINVAL);
  (void)::flock(fd.get(), LOCK_SH | LOCK_NB);
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path,
                                                             const Progress& progress) {
  MUSTER_ASSIGN_OR_RETURN(UniqueFd file, OpenHeld(path));
  if (!IsShared(file)) return Map(path, std::move(file), std::nullopt);
  absl::StatusOr<MachineCopy> copy = MachineCopy::Of(path, file, progress);
  if (copy.ok()) return Map(path, std::move(file), *std::move(copy));
  MUSTER_RETURN_IF_ERROR(progress());
  Log(LogLevel::kWarning, "index_not_copied",
      {{"index", path},
       {"error", copy.status().message()},
       {"note", "it is mapped where it is: another machine must not remove it"}});
  return Map(path, std::move(file), std::nullopt);
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::OpenCopy(const std::string& path,
                                                                 const Progress& progress) {
  MUSTER_ASSIGN_OR_RETURN(UniqueFd file, OpenHeld(path));
  MUSTER_ASSIGN_OR_RETURN(MachineCopy copy, MachineCopy::Of(path, file, progress));
  return Map(path, std::move(file), std::move(copy));
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Map(const std::string& path, UniqueFd file,
                                                            std::optional<MachineCopy> copy) {
  const int mapped_fd = copy.has_value() ? copy->fd() : file.get();
  struct stat info = {};
  if (::fstat(mapped_fd, &info) != 0) return MapError(path, errno);
  const auto size = static_cast<size_t>(info.st_size);
  void* memory = nullptr;
  if (size > 0) {
    memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, mapped_fd, 0);
    if (memory == MAP_FAILED) return MapError(path, errno);
  }
  return std::unique_ptr<MappedFile>(new MappedFile(
      std::move(file), std::move(copy), absl::string_view(static_cast<const char*>(memory), size)));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace muster::worker
