// Preloaded into the process under test: counts, over all threads, the calls that leave something
// behind (on disk or on the wire), and kills the process just before the one that the harness
// chose. After SIGKILL no handler runs and nothing is flushed; what the kernel already has, stays.
//
// strace's own fault injection counts per thread and cannot be armed from outside, and a gRPC
// server never stops calling. Without the page, or while it is not armed, every call goes straight
// through.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/chaos/crash_page.h"

namespace {

using muster::testing::CrashPage;

CrashPage* page = nullptr;

__attribute__((constructor)) void MapPage() {
  const char* path = getenv(muster::testing::kCrashPageVariable);
  if (path == nullptr) return;
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* mapped = mmap(nullptr, sizeof(CrashPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped != MAP_FAILED) page = static_cast<CrashPage*>(mapped);
}

void Count(const char* call) {
  if (page == nullptr || page->armed.load() == 0) return;
  const uint64_t number = page->calls.fetch_add(1) + 1;
  if (number != page->kill_at.load()) return;
  strncpy(page->call, call, sizeof(page->call) - 1);
  page->killed.store(1);
  syscall(SYS_kill, getpid(), SIGKILL);
  while (true) pause();
}

template <typename Function>
Function Next(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// Looks the real one up at its first use. glibc's headers declare each of these.
#define COUNTED(result, name, parameters, arguments)                         \
  extern "C" __attribute__((visibility("default"))) result name parameters { \
    static const auto next = Next(&::name, #name);                           \
    Count(#name);                                                            \
    return next arguments;                                                   \
  }

COUNTED(ssize_t, write, (int fd, const void* data, size_t size), (fd, data, size))
COUNTED(ssize_t, pwrite, (int fd, const void* data, size_t size, off_t at), (fd, data, size, at))
COUNTED(ssize_t, pwrite64, (int fd, const void* data, size_t size, off64_t at),
        (fd, data, size, at))
COUNTED(ssize_t, writev, (int fd, const struct iovec* parts, int count), (fd, parts, count))
COUNTED(ssize_t, pwritev, (int fd, const struct iovec* parts, int count, off_t at),
        (fd, parts, count, at))
COUNTED(int, fsync, (int fd), (fd))
COUNTED(int, fdatasync, (int fd), (fd))
COUNTED(int, ftruncate, (int fd, off_t size) noexcept, (fd, size))
COUNTED(int, ftruncate64, (int fd, off64_t size) noexcept, (fd, size))
COUNTED(int, rename, (const char* from, const char* to) noexcept, (from, to))
COUNTED(int, renameat, (int a, const char* from, int b, const char* to) noexcept, (a, from, b, to))
COUNTED(int, renameat2, (int a, const char* from, int b, const char* to, unsigned flags) noexcept,
        (a, from, b, to, flags))
COUNTED(int, unlink, (const char* path) noexcept, (path))
COUNTED(int, unlinkat, (int fd, const char* path, int flags) noexcept, (fd, path, flags))
COUNTED(ssize_t, send, (int fd, const void* data, size_t size, int flags), (fd, data, size, flags))
COUNTED(ssize_t, sendto,
        (int fd, const void* data, size_t size, int flags, const struct sockaddr* to,
         socklen_t to_size),
        (fd, data, size, flags, to, to_size))
COUNTED(ssize_t, sendmsg, (int fd, const struct msghdr* message, int flags), (fd, message, flags))
