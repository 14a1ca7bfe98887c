// Memory that the processes of one host share: a memfd. It has no name, so nothing of it is left
// when its processes die, however they die; it lies on no mount, so a small /dev/shm does not bound
// it; its size is sealed and its pages are there from the start, so no access to it can fault.
//
// Used by SharedMemoryGang. Movable, not copyable. Knows no torch.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "absl/status/statusor.h"

namespace muster::worker {

class SharedSegment {
 public:
  // All zeros. RESOURCE_EXHAUSTED: this host, or the container's limits, will not give so much.
  static absl::StatusOr<SharedSegment> Create(size_t bytes);
  // The segment that process `pid`, of this PID namespace and this user, holds as descriptor `fd`.
  // FAILED_PRECONDITION when it cannot be opened or is not of that size.
  static absl::StatusOr<SharedSegment> OpenOf(pid_t pid, int fd, size_t bytes);

  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&&) = delete;
  ~SharedSegment();

  char* data() const { return data_; }
  size_t size() const { return size_; }
  // By which others open it; -1 once forgotten.
  int fd() const { return fd_; }
  // The mapping stays; nobody else can open the segment from here any more.
  void ForgetDescriptor();

 private:
  SharedSegment(int fd, char* data, size_t size) : fd_(fd), data_(data), size_(size) {}
  static absl::StatusOr<SharedSegment> Map(int fd, size_t bytes);

  int fd_;
  char* data_;
  size_t size_;
};

}  // namespace muster::worker
