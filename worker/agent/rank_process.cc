#include "worker/agent/rank_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/agent/vfork_into.h"
#include "worker/link/link_messages.h"

namespace muster::worker {
namespace {

// Where the child finds its descriptors; everything above is closed.
constexpr int kChildLinkFd = 3;
constexpr int kChildReportFd = 4;

// What the child writes when a step before its program fails.
struct StartFailure {
  int error = 0;
  char step[32] = {};
};

// Everything the child needs, made before the fork: after it only async-signal-safe calls are
// allowed.
struct ChildPlan {
  const char* program;
  const char* directory;
  char* const* argv;
  char* const* envp;
  int stdin_fd, stdout_fd, stderr_fd;
  int link_fd;  // -1: none
  int report_fd;
  const cpu_set_t* cpus;  // null: as the agent
  int cgroup_fd;          // -1: as the agent
  pid_t parent;
};

[[noreturn]] void FailInChild(int report_fd, const char* step) {
  StartFailure failure;
  failure.error = errno;
  for (size_t i = 0; i + 1 < sizeof failure.step && step[i] != '\0'; ++i) failure.step[i] = step[i];
  [[maybe_unused]] const ssize_t written = ::write(report_fd, &failure, sizeof failure);
  ::_exit(127);
}

void ResetSignals() {
  for (int number = 1; number < NSIG; ++number) {
    if (number != SIGKILL && number != SIGSTOP) ::signal(number, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

void CloseFrom(int first) {
  if (::syscall(SYS_close_range, first, ~0u, 0) == 0) return;
  const long most = ::sysconf(_SC_OPEN_MAX);
  for (int fd = first; fd < most; ++fd) ::close(fd);
}

[[noreturn]] void RunChild(const ChildPlan& plan) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
    FailInChild(plan.report_fd, "set the death signal of");
  // The parent may have died before the line above.
  if (::getppid() != plan.parent) ::_exit(127);
  if (::setpgid(0, 0) != 0) FailInChild(plan.report_fd, "make a process group for");
  if (plan.cpus != nullptr && ::sched_setaffinity(0, sizeof *plan.cpus, plan.cpus) != 0) {
    FailInChild(plan.report_fd, "choose the CPUs of");
  }
  // First out of the way of the low numbers, then onto them.
  const int first_free = kChildReportFd + 1;
  const int report = ::fcntl(plan.report_fd, F_DUPFD_CLOEXEC, first_free);
  const int link = plan.link_fd < 0 ? -1 : ::fcntl(plan.link_fd, F_DUPFD_CLOEXEC, first_free);
  const int in = ::fcntl(plan.stdin_fd, F_DUPFD_CLOEXEC, first_free);
  const int out = ::fcntl(plan.stdout_fd, F_DUPFD_CLOEXEC, first_free);
  const int err = ::fcntl(plan.stderr_fd, F_DUPFD_CLOEXEC, first_free);
  const bool linked = plan.link_fd < 0 || (link >= 0 && ::dup2(link, kChildLinkFd) >= 0);
  if (report < 0 || in < 0 || out < 0 || err < 0 || ::dup2(in, 0) < 0 || ::dup2(out, 1) < 0 ||
      ::dup2(err, 2) < 0 || !linked || ::dup3(report, kChildReportFd, O_CLOEXEC) < 0) {
    FailInChild(plan.report_fd, "arrange descriptors for");
  }
  if (link < 0) ::close(kChildLinkFd);
  CloseFrom(first_free);
  if (::chdir(plan.directory) != 0) FailInChild(kChildReportFd, "enter the folder of");
  ResetSignals();
  ::execve(plan.program, plan.argv, plan.envp);
  FailInChild(kChildReportFd, "execute");
}

// vfork: the child borrows our memory until it runs the program, instead of a copy of all our page
// tables, which takes longer than the program's own start. It calls nothing but system calls, and
// never returns from here; no signal may run a handler of ours in it.
[[gnu::noinline]] pid_t StartChild(const ChildPlan& plan, int& error) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = plan.cgroup_fd < 0 ? ::vfork() : VforkInto(plan.cgroup_fd);
  if (pid == 0) RunChild(plan);
  error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return pid;
}

absl::Status ErrnoStatus(int error, absl::string_view step, const std::string& program) {
  char buffer[128];
  const std::string message =
      absl::StrCat("cannot ", step, " ", program, ": ", ::strerror_r(error, buffer, sizeof buffer));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case ENOEXEC:
      return absl::PermissionDeniedError(message);
    case EAGAIN:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::InternalError(message);
  }
}

absl::StatusOr<UniqueFd> OpenFile(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  return fd;
}

std::vector<char*> PointersTo(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Waits until the child either runs its program (end of file) or says what failed.
absl::Status AwaitStart(int report_fd, pid_t pid, const std::string& program) {
  StartFailure failure;
  ssize_t got = 0;
  do {
    got = ::read(report_fd, &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return absl::OkStatus();
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (got != static_cast<ssize_t>(sizeof failure)) {
    return absl::InternalError(
        absl::StrCat("cannot start ", program, ": the child died before it could say why"));
  }
  return ErrnoStatus(failure.error, failure.step, program);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankProcess>> RankProcess::Start(const RankCommand& command,
                                                                Children& children) {
  MUSTER_ASSIGN_OR_RETURN(const UniqueFd in, OpenFile("/dev/null", O_RDONLY));
  const int append = O_WRONLY | O_CREAT | O_APPEND;
  MUSTER_ASSIGN_OR_RETURN(const UniqueFd out,
                          OpenFile(command.log_directory + "/stdout.log", append));
  MUSTER_ASSIGN_OR_RETURN(const UniqueFd err,
                          OpenFile(command.log_directory + "/stderr.log", append));
  int sockets[2] = {-1, -1};
  if (command.link && ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return ErrnoStatus(errno, "make the link of", command.program);
  }
  UniqueFd link(sockets[0]);
  const UniqueFd child_link(sockets[1]);
  int pipe_fds[2];
  if (::pipe2(pipe_fds, O_CLOEXEC) != 0)
    return ErrnoStatus(errno, "make a pipe for", command.program);
  const UniqueFd report_read(pipe_fds[0]);
  UniqueFd report_write(pipe_fds[1]);

  std::vector<std::string> arguments = command.argv;
  std::vector<std::string> environment = command.environment;
  if (command.link) environment.push_back(absl::StrCat(kLinkFdVariable, "=", kChildLinkFd));
  const std::vector<char*> argv = PointersTo(arguments);
  const std::vector<char*> envp = PointersTo(environment);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (const int cpu : command.cpus) CPU_SET(cpu, &cpus);
  const ChildPlan plan = {command.program.c_str(),
                          command.directory.c_str(),
                          argv.data(),
                          envp.data(),
                          in.get(),
                          out.get(),
                          err.get(),
                          child_link.get(),
                          report_write.get(),
                          command.cpus.empty() ? nullptr : &cpus,
                          command.cgroup_fd,
                          ::getpid()};
  int error = 0;
  const pid_t pid = StartChild(plan, error);
  if (pid < 0) return ErrnoStatus(error, "fork for", command.program);
  report_write.Reset();
  MUSTER_RETURN_IF_ERROR(AwaitStart(report_read.get(), pid, command.program));
  UniqueFd exit_fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!exit_fd.valid()) {
    const absl::Status status = ErrnoStatus(errno, "watch", command.program);
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return status;
  }
  return std::unique_ptr<RankProcess>(
      new RankProcess(children, pid, std::move(exit_fd), std::move(link)));
}

RankProcess::~RankProcess() {
  if (reaped_) return;
  SignalGroup(SIGKILL);
  Signal(SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  children_.RemoveLeader(pid_);
}

std::optional<ExitStatus> RankProcess::Ended() const {
  MUSTER_CHECK(!reaped_, "asked for the end of a process that was reaped");
  siginfo_t info = {};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    return std::nullopt;
  }
  if (info.si_pid != pid_) return std::nullopt;
  if (info.si_code == CLD_EXITED) return ExitStatus{info.si_status, 0};
  return ExitStatus{0, info.si_status};
}

void RankProcess::Signal(int signal) const {
  if (!reaped_) ::kill(pid_, signal);
}

void RankProcess::SignalGroup(int signal) const {
  if (!reaped_) ::kill(-pid_, signal);
}

void RankProcess::Reap() {
  MUSTER_CHECK(!reaped_, "a process was reaped twice");
  ::waitpid(pid_, nullptr, 0);
  children_.RemoveLeader(pid_);
  reaped_ = true;
}

}  // namespace muster::worker
