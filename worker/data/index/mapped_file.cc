#include "worker/data/index/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
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
constexpr size_t kCopyBytes = 1u << 20;

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
  (void)::flock(fd.get(), LOCK_SH | LOCK_NB);
  return fd;
}

absl::StatusOr<UniqueFd> CopyWithoutName(const std::string& path, const UniqueFd& from) {
  const char* folder = ::getenv("TMPDIR");
  std::string name = absl::StrCat(folder == nullptr || *folder == '\0' ? "/var/tmp" : folder,
                                  "/muster-index-XXXXXX");
  UniqueFd copy(::mkostemp(name.data(), O_CLOEXEC));
  if (!copy.valid()) return MapError(name, errno);
  ::unlink(name.c_str());
  std::string buffer(kCopyBytes, '\0');
  while (true) {
    const ssize_t got = ::read(from.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return MapError(path, errno);
    if (got == 0) return copy;
    for (ssize_t done = 0; done < got;) {
      const ssize_t put =
          ::write(copy.get(), buffer.data() + done, static_cast<size_t>(got - done));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return MapError(name, errno);
      done += put;
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(UniqueFd file, OpenHeld(path));
  if (IsShared(file)) {
    const absl::StatusOr<UniqueFd> copy = CopyWithoutName(path, file);
    if (copy.ok()) return Map(path, std::move(file), copy->get());
    Log(LogLevel::kWarning, "index_not_copied",
        {{"index", path},
         {"error", copy.status().message()},
         {"note", "it is mapped where it is: another machine must not remove it"}});
  }
  const int fd = file.get();
  return Map(path, std::move(file), fd);
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::OpenCopy(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(UniqueFd file, OpenHeld(path));
  MUSTER_ASSIGN_OR_RETURN(const UniqueFd copy, CopyWithoutName(path, file));
  return Map(path, std::move(file), copy.get());
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Map(const std::string& path, UniqueFd file,
                                                            int mapped_fd) {
  struct stat info = {};
  if (::fstat(mapped_fd, &info) != 0) return MapError(path, errno);
  if (!S_ISREG(info.st_mode)) return MapError(path, EINVAL);
  const auto size = static_cast<size_t>(info.st_size);
  void* memory = nullptr;
  if (size > 0) {
    memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, mapped_fd, 0);
    if (memory == MAP_FAILED) return MapError(path, errno);
  }
  return std::unique_ptr<MappedFile>(
      new MappedFile(std::move(file), absl::string_view(static_cast<const char*>(memory), size)));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace muster::worker
