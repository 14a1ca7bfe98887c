#include "cli/local/daemon_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "cli/local/log_bound.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

absl::Status Failed(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", ::strerror(errno)));
}

std::vector<char*> Pointers(const std::vector<std::string>& argv) {
  std::vector<char*> pointers;
  for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

absl::StatusOr<UniqueFd> OpenLog(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && info.st_size > static_cast<off_t>(kMaxLogBytes)) {
    if (::rename(path.c_str(), absl::StrCat(path, ".1").c_str()) != 0) return Failed(path);
  }
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return Failed(path);
  return fd;
}

// Only async-signal-safe calls from here on: this runs between fork and exec.
[[noreturn]] void RunChild(char** argv, int log_fd, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(126);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null_fd = ::open("/dev/null", O_RDONLY);
  if (null_fd >= 0) ::dup2(null_fd, STDIN_FILENO);
  ::dup2(log_fd, STDOUT_FILENO);
  ::dup2(log_fd, STDERR_FILENO);
  ::execv(argv[0], argv);
  constexpr char kMessage[] = "cannot execute: ";
  const char* reason = ::strerror(errno);
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  written = ::write(STDERR_FILENO, argv[0], ::strlen(argv[0]));
  written = ::write(STDERR_FILENO, ": ", 2);
  written = ::write(STDERR_FILENO, reason, ::strlen(reason));
  written = ::write(STDERR_FILENO, "\n", 1);
  ::_exit(127);
}

struct flock WholeFile() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

absl::StatusOr<pid_t> StartDaemon(const std::vector<std::string>& argv,
                                  const std::string& log_path) {
  MUSTER_ASSIGN_OR_RETURN(const UniqueFd log, OpenLog(log_path));
  std::vector<char*> pointers = Pointers(argv);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Failed("fork");
  if (pid == 0) RunChild(pointers.data(), log.get(), parent);
  return pid;
}

absl::StatusOr<pid_t> StartDetached(const std::vector<std::string>& argv,
                                    const std::string& log_path) {
  MUSTER_ASSIGN_OR_RETURN(const UniqueFd log, OpenLog(log_path));
  // Inherited descriptors (a test's pipe, say) would be held open as long as the supervisor lives.
  ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, log.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, log.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> pointers = Pointers(argv);
  pid_t pid = 0;
  errno = ::posix_spawn(&pid, argv[0].c_str(), &files, &attributes, pointers.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (errno != 0) return Failed(argv[0]);
  return pid;
}

absl::StatusOr<UniqueFd> TakeLock(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return Failed(path);
  struct flock lock = WholeFile();
  if (::fcntl(fd.get(), F_SETLK, &lock) == 0) return fd;
  if (errno == EACCES || errno == EAGAIN) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": another supervisor holds it"));
  }
  return Failed(path);
}

std::optional<pid_t> LockHolder(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  struct flock lock = WholeFile();
  if (::fcntl(fd.get(), F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  return lock.l_pid;
}

absl::StatusOr<std::string> OwnPath() {
  std::array<char, PATH_MAX> buffer;
  const ssize_t count = ::readlink("/proc/self/exe", buffer.data(), buffer.size());
  if (count <= 0) return Failed("/proc/self/exe");
  return std::string(buffer.data(), static_cast<size_t>(count));
}

}  // namespace muster::cli
