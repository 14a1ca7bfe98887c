// Preloaded into the process under test: counts, over all threads, the calls that leave something
// behind (on disk or on the wire), and kills the process just before the one that the harness
// chose. After SIGKILL no handler runs and nothing is flushed; what the kernel already has, stays.
//
// strace's own fault injection counts per thread and cannot be armed from outside, and a gRPC
// server never stops calling. Without the page, or while it is not armed, every call goes straight
// through. The children of a process between fork and exec do not count, nor do other programs.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/chaos/crash_page.h"

namespace {

using muster::testing::CrashPage;
using muster::testing::kAnyCall;
using muster::testing::kCrashCallCount;
using muster::testing::kCrashCalls;

CrashPage* page = nullptr;
pid_t process = 0;

// The place of a call in kCrashCalls; known when this is compiled.
consteval uint32_t KindOf(const char* name) {
  for (uint32_t kind = 0; kind < kCrashCallCount; ++kind) {
    const char* known = kCrashCalls[kind];
    size_t i = 0;
    while (known[i] != '\0' && known[i] == name[i]) ++i;
    if (known[i] == name[i]) return kind;
  }
  throw "no such call in kCrashCalls";
}

__attribute__((constructor)) void MapPage() {
  const char* path = getenv(muster::testing::kCrashPageVariable);
  const char* program = getenv(muster::testing::kCrashProgramVariable);
  if (path == nullptr || program == nullptr) return;
  if (strcmp(program, program_invocation_short_name) != 0) return;
  const int fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC));
  if (fd < 0) return;
  void* mapped = mmap(nullptr, sizeof(CrashPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped == MAP_FAILED) return;
  process = getpid();
  page = static_cast<CrashPage*>(mapped);
}

void Count(uint32_t kind) {
  if (page == nullptr || page->armed.load() == 0 || getpid() != process) return;
  const uint64_t number = page->calls.fetch_add(1) + 1;
  const uint64_t of_kind = page->of_kind[kind].fetch_add(1) + 1;
  const uint32_t wanted = page->kill_kind.load();
  if (wanted != kAnyCall && wanted != kind) return;
  if ((wanted == kAnyCall ? number : of_kind) != page->kill_at.load()) return;
  page->killed_kind.store(kind);
  page->killed.store(1);
  syscall(SYS_kill, process, SIGKILL);
  while (true) pause();
}

template <typename Function>
Function Next(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool MayCreate(int flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE || (flags & O_TRUNC) != 0;
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Looks the real one up at its first use. glibc's headers declare each of these. `kind` is what it
// counts as.
#define COUNTED_AS(kind, result, name, parameters, arguments) \
  EXPORTED result name parameters {                           \
    static const auto next = Next(&::name, #name);            \
    Count(KindOf(#kind));                                     \
    return next arguments;                                    \
  }
#define COUNTED(result, name, parameters, arguments) \
  COUNTED_AS(name, result, name, parameters, arguments)

COUNTED(ssize_t, write, (int fd, const void* data, size_t size), (fd, data, size))
COUNTED(ssize_t, pwrite, (int fd, const void* data, size_t size, off_t at), (fd, data, size, at))
COUNTED_AS(pwrite, ssize_t, pwrite64, (int fd, const void* data, size_t size, off64_t at),
           (fd, data, size, at))
COUNTED(ssize_t, writev, (int fd, const struct iovec* parts, int count), (fd, parts, count))
COUNTED(ssize_t, pwritev, (int fd, const struct iovec* parts, int count, off_t at),
        (fd, parts, count, at))
COUNTED_AS(pwritev, ssize_t, pwritev64, (int fd, const struct iovec* parts, int count, off64_t at),
           (fd, parts, count, at))
COUNTED(ssize_t, pwritev2, (int fd, const struct iovec* parts, int count, off_t at, int flags),
        (fd, parts, count, at, flags))
COUNTED_AS(pwritev2, ssize_t, pwritev64v2,
           (int fd, const struct iovec* parts, int count, off64_t at, int flags),
           (fd, parts, count, at, flags))
COUNTED(int, fsync, (int fd), (fd))
COUNTED(int, fdatasync, (int fd), (fd))
COUNTED(int, ftruncate, (int fd, off_t size) noexcept, (fd, size))
COUNTED_AS(ftruncate, int, ftruncate64, (int fd, off64_t size) noexcept, (fd, size))
COUNTED(int, truncate, (const char* path, off_t size) noexcept, (path, size))
COUNTED_AS(truncate, int, truncate64, (const char* path, off64_t size) noexcept, (path, size))
COUNTED(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size))
COUNTED_AS(fallocate, int, fallocate64, (int fd, int mode, off64_t at, off64_t size),
           (fd, mode, at, size))
COUNTED_AS(fallocate, int, posix_fallocate, (int fd, off_t at, off_t size), (fd, at, size))
COUNTED_AS(fallocate, int, posix_fallocate64, (int fd, off64_t at, off64_t size), (fd, at, size))
COUNTED(int, mkdir, (const char* path, mode_t mode) noexcept, (path, mode))
COUNTED(int, mkdirat, (int fd, const char* path, mode_t mode) noexcept, (fd, path, mode))
COUNTED(int, rmdir, (const char* path) noexcept, (path))
COUNTED(int, link, (const char* from, const char* to) noexcept, (from, to))
COUNTED(int, linkat, (int a, const char* from, int b, const char* to, int flags) noexcept,
        (a, from, b, to, flags))
COUNTED(int, symlink, (const char* to, const char* path) noexcept, (to, path))
COUNTED_AS(symlink, int, symlinkat, (const char* to, int fd, const char* path) noexcept,
           (to, fd, path))
COUNTED(int, rename, (const char* from, const char* to) noexcept, (from, to))
COUNTED(int, renameat, (int a, const char* from, int b, const char* to) noexcept, (a, from, b, to))
COUNTED(int, renameat2, (int a, const char* from, int b, const char* to, unsigned flags) noexcept,
        (a, from, b, to, flags))
COUNTED(int, unlink, (const char* path) noexcept, (path))
COUNTED(int, unlinkat, (int fd, const char* path, int flags) noexcept, (fd, path, flags))
COUNTED(ssize_t, copy_file_range,
        (int from, off64_t* from_at, int to, off64_t* to_at, size_t size, unsigned flags),
        (from, from_at, to, to_at, size, flags))
COUNTED(ssize_t, sendfile, (int to, int from, off_t* at, size_t size) noexcept,
        (to, from, at, size))
COUNTED_AS(sendfile, ssize_t, sendfile64, (int to, int from, off64_t* at, size_t size) noexcept,
           (to, from, at, size))
COUNTED(ssize_t, send, (int fd, const void* data, size_t size, int flags), (fd, data, size, flags))
COUNTED(ssize_t, sendto,
        (int fd, const void* data, size_t size, int flags, const struct sockaddr* to,
         socklen_t to_size),
        (fd, data, size, flags, to, to_size))
COUNTED(ssize_t, sendmsg, (int fd, const struct msghdr* message, int flags), (fd, message, flags))
COUNTED(int, sendmmsg, (int fd, struct mmsghdr* messages, unsigned count, int flags),
        (fd, messages, count, flags))

// The mode is there only where something may be made.
#define COUNTED_OPEN(kind, name, parameters, start)                            \
  EXPORTED int name parameters {                                               \
    static const auto next = Next(&::name, #name);                             \
    mode_t mode = 0;                                                           \
    if (MayCreate(flags)) {                                                    \
      va_list rest;                                                            \
      va_start(rest, flags);                                                   \
      if ((flags & (O_CREAT | __O_TMPFILE)) != 0) mode = va_arg(rest, mode_t); \
      va_end(rest);                                                            \
      Count(KindOf(#kind));                                                    \
    }                                                                          \
    return next start;                                                         \
  }

COUNTED_OPEN(open, open, (const char* path, int flags, ...), (path, flags, mode))
COUNTED_OPEN(open, open64, (const char* path, int flags, ...), (path, flags, mode))
COUNTED_OPEN(openat, openat, (int fd, const char* path, int flags, ...), (fd, path, flags, mode))
COUNTED_OPEN(openat, openat64, (int fd, const char* path, int flags, ...), (fd, path, flags, mode))
COUNTED_AS(open, int, creat, (const char* path, mode_t mode), (path, mode))
COUNTED_AS(open, int, creat64, (const char* path, mode_t mode), (path, mode))
// A stream that is written: the library makes its file by a call that is not seen from here.
EXPORTED FILE* fopen(const char* path, const char* mode) {
  static const auto next = Next(&::fopen, "fopen");
  if (mode[0] != 'r') Count(KindOf("open"));
  return next(path, mode);
}
EXPORTED FILE* fopen64(const char* path, const char* mode) {
  static const auto next = Next(&::fopen64, "fopen64");
  if (mode[0] != 'r') Count(KindOf("open"));
  return next(path, mode);
}
