#include "worker/dist/shared_memory/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

absl::Status Exhausted(absl::string_view call, size_t bytes, int error) {
  return absl::ResourceExhaustedError(
      absl::StrCat(call, " of ", bytes, " bytes of shared memory: ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<SharedSegment> SharedSegment::Create(size_t bytes) {
  const int fd = ::memfd_create("muster-gang", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return Exhausted("memfd_create", bytes, errno);
  // Takes the pages now: memory that is missing is an error here, not a SIGBUS later.
  int error;
  do {
    error = ::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error != 0) {
    ::close(fd);
    return Exhausted("fallocate", bytes, error);
  }
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    error = errno;
    ::close(fd);
    return Exhausted("sealing", bytes, error);
  }
  return Map(fd, bytes);
}

absl::StatusOr<SharedSegment> SharedSegment::OpenOf(pid_t pid, int fd, size_t bytes) {
  const std::string path = absl::StrCat("/proc/", pid, "/fd/", fd);
  const int opened = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  struct stat status = {};
  if (::fstat(opened, &status) != 0 || status.st_size != static_cast<off_t>(bytes)) {
    ::close(opened);
    return absl::FailedPreconditionError(absl::StrCat(path, " is no segment of ", bytes, " bytes"));
  }
  return Map(opened, bytes);
}

absl::StatusOr<SharedSegment> SharedSegment::Map(int fd, size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    ::close(fd);
    return Exhausted("mmap", bytes, error);
  }
  return SharedSegment(fd, static_cast<char*>(data), bytes);
}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(other.size_) {}

SharedSegment::~SharedSegment() {
  ForgetDescriptor();
  if (data_ != nullptr) ::munmap(data_, size_);
}

void SharedSegment::ForgetDescriptor() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace muster::worker
