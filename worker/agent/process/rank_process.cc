#include "worker/agent/process/rank_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/agent/process/vfork_into.h"
#include "worker/link/link_messages.h"

namespace muster::worker {
namespace {

// Where the child finds its link; everything above is closed.
constexpr int kChildLinkFd = 3;

// What the child says, in memory that it shares until it runs its program, when a step before
// fails.
struct StartFailure {
  int error = 0;  // 0: none failed
  const char* step = "";
};

// Everything the child needs, made before the fork: after it only async-signal-safe calls are
// allowed.
struct ChildPlan {
  const char* program;
  const char* directory;
  char* const* argv;
  char* const* envp;
  int stdin_fd, stdout_fd, stderr_fd;
  int link_fd;            // -1: none
  const cpu_set_t* cpus;  // null: as the agent
  int cgroup_fd;          // -1: as the agent
  bool has_terminal;      // its stdin, for a session of its own
  bool keeps_orphans;
  int file_mask;              // -1: as the agent
  const char* oom_score_adj;  // null: as the agent
  const rlimit* processes;    // null: as the agent
  pid_t parent;
  std::atomic<pid_t>* child;  // for those who may kill it
  const std::atomic<bool>* killed;
  const std::vector<int>* changed_signals;
  StartFailure* failure;
};

[[noreturn]] void FailInChild(const ChildPlan& plan, const char* step) {
  *plan.failure = {errno, step};
  ::_exit(127);
}

// Those that the agent ignores or handles: set when it began, and never after.
const std::vector<int>& ChangedSignals() {
  static const std::vector<int> changed = [] {
    std::vector<int> numbers;
    struct sigaction action;
    for (int number = 1; number < NSIG; ++number) {
      if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_DFL) {
        numbers.push_back(number);
      }
    }
    return numbers;
  }();
  return changed;
}

void ResetSignals(const std::vector<int>& changed) {
  for (const int number : changed) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

void CloseFrom(int first) {
  if (::syscall(SYS_close_range, first, ~0u, 0) == 0) return;
  const long most = ::sysconf(_SC_OPEN_MAX);
  for (int fd = first; fd < most; ++fd) ::close(fd);
}

// The descriptor itself, or a copy that is out of the way of the low numbers.
int OutOfTheWay(int fd) {
  return fd < 0 || fd > kChildLinkFd ? fd : ::fcntl(fd, F_DUPFD_CLOEXEC, kChildLinkFd + 1);
}

// To offer itself sooner than the agent is always allowed; where /proc is not to be written all are
// alike.
void SetOomScore(const char* score) {
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(file, score, ::strlen(score));
  ::close(file);
}

[[noreturn]] void RunChild(const ChildPlan& plan) {
  *plan.child = ::getpid();
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) FailInChild(plan, "set the death signal of");
  // The parent may have died before the line above.
  if (::getppid() != plan.parent) ::_exit(127);
  if (*plan.killed) {
    errno = ECANCELED;
    FailInChild(plan, "begin to run");
  }
  const bool grouped = plan.has_terminal ? ::setsid() >= 0 : ::setpgid(0, 0) == 0;
  if (!grouped) FailInChild(plan, "make a process group for");
  if (plan.keeps_orphans && ::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    FailInChild(plan, "keep the orphans of");
  }
  if (plan.file_mask >= 0) ::umask(static_cast<mode_t>(plan.file_mask));
  if (plan.oom_score_adj != nullptr) SetOomScore(plan.oom_score_adj);
  if (plan.processes != nullptr) ::setrlimit(RLIMIT_NPROC, plan.processes);
  if (plan.cpus != nullptr && ::sched_setaffinity(0, sizeof *plan.cpus, plan.cpus) != 0) {
    FailInChild(plan, "choose the CPUs of");
  }
  const int link = OutOfTheWay(plan.link_fd);
  const int in = OutOfTheWay(plan.stdin_fd);
  const int out = OutOfTheWay(plan.stdout_fd);
  const int err = OutOfTheWay(plan.stderr_fd);
  const bool linked = plan.link_fd < 0 || (link >= 0 && ::dup2(link, kChildLinkFd) >= 0);
  if (in < 0 || out < 0 || err < 0 || ::dup2(in, 0) < 0 || ::dup2(out, 1) < 0 ||
      ::dup2(err, 2) < 0 || !linked) {
    FailInChild(plan, "arrange descriptors for");
  }
  if (plan.has_terminal && ::ioctl(0, TIOCSCTTY, 0) != 0) FailInChild(plan, "give a terminal to");
  CloseFrom(plan.link_fd < 0 ? kChildLinkFd : kChildLinkFd + 1);
  if (::chdir(plan.directory) != 0) FailInChild(plan, "enter the folder of");
  ResetSignals(*plan.changed_signals);
  ::execve(plan.program, plan.argv, plan.envp);
  FailInChild(plan, "execute");
}

// vfork: the child borrows our memory until it runs the program, instead of a copy of all our page
// tables, which takes longer than the program's own start. It calls nothing but system calls, and
// never returns from here; no signal may run a handler of ours in it.
[[gnu::noinline]] pid_t StartChild(const ChildPlan& plan, int& pidfd, int& error) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid = VforkInto(plan.cgroup_fd, pidfd);
  // A sandbox may refuse clone3 by any error.
  if (pid < 0 && plan.cgroup_fd < 0) pid = ::vfork();
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

struct OpenStreams {
  RankCommand::Streams use;
  UniqueFd null, out, err;  // where the command brings none
};
absl::StatusOr<OpenStreams> OpenStreamsOf(const RankCommand& command) {
  OpenStreams streams;
  if (command.streams.has_value()) {
    streams.use = *command.streams;
    return streams;
  }
  const int append = O_WRONLY | O_CREAT | O_APPEND;
  MUSTER_ASSIGN_OR_RETURN(streams.null, OpenFile("/dev/null", O_RDONLY));
  MUSTER_ASSIGN_OR_RETURN(streams.out, OpenFile(command.log_directory + "/stdout.log", append));
  MUSTER_ASSIGN_OR_RETURN(streams.err, OpenFile(command.log_directory + "/stderr.log", append));
  streams.use = {streams.null.get(), streams.out.get(), streams.err.get()};
  return streams;
}

// As execve takes them; it changes nothing.
std::vector<char*> PointersTo(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 2);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

// Of the calling thread's start.
class LaunchScope {
 public:
  explicit LaunchScope(LaunchWatch* watch) : watch_(watch == nullptr ? own_ : *watch) {}
  ~LaunchScope() { End(); }
  LaunchScope(const LaunchScope&) = delete;
  LaunchScope& operator=(const LaunchScope&) = delete;

  std::atomic<pid_t>& child() { return watch_.child_; }
  const std::atomic<bool>& killed() const { return watch_.killed_; }
  // The process may be reaped from here on.
  void End() {
    MutexLock lock(watch_.mutex_);
    watch_.over_ = true;
  }

 private:
  LaunchWatch own_;
  LaunchWatch& watch_;
};

void LaunchWatch::Kill() {
  MutexLock lock(mutex_);
  if (over_) return;
  killed_ = true;
  // Nobody reaps it before the start is over, so the number is its own.
  if (const pid_t child = child_; child > 0) ::kill(child, SIGKILL);
}

// The most processes that it may see of its user, so that the agent can still make some; nothing
// where that is not known. It counts the user's on the whole machine, and root is not bound by it:
// a cgroup's pids.max is the better wall.
std::optional<rlimit> ProcessLimit(uint64_t spared) {
  rlimit limit = {};
  if (spared == 0 || ::getrlimit(RLIMIT_NPROC, &limit) != 0) return std::nullopt;
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur <= 2 * spared) return std::nullopt;
  limit.rlim_cur -= spared;
  limit.rlim_max = limit.rlim_cur;
  return limit;
}

absl::StatusOr<StartedProcess> LaunchProcess(const RankCommand& command, LaunchWatch* watch) {
  LaunchScope scope(watch);
  MUSTER_ASSIGN_OR_RETURN(const OpenStreams streams, OpenStreamsOf(command));
  int sockets[2] = {-1, -1};
  if (command.link && ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return ErrnoStatus(errno, "make the link of", command.program);
  }
  UniqueFd link(sockets[0]);
  const UniqueFd child_link(sockets[1]);
  const std::vector<char*> argv = PointersTo(command.argv);
  std::vector<char*> envp = PointersTo(command.environment);
  std::string link_variable = absl::StrCat(kLinkFdVariable, "=", kChildLinkFd);
  if (command.link) envp.insert(std::prev(envp.end()), link_variable.data());
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (const int cpu : command.cpus) CPU_SET(cpu, &cpus);
  const std::string oom_score = absl::StrCat(command.oom_score_adj.value_or(0));
  const std::optional<rlimit> processes = ProcessLimit(command.process_headroom);
  StartFailure failure;
  const ChildPlan plan = {command.program.c_str(),
                          command.directory.c_str(),
                          argv.data(),
                          envp.data(),
                          streams.use.in,
                          streams.use.out,
                          streams.use.err,
                          child_link.get(),
                          command.cpus.empty() ? nullptr : &cpus,
                          command.cgroup_fd,
                          streams.use.is_terminal,
                          command.keeps_orphans,
                          command.file_mask.has_value() ? static_cast<int>(*command.file_mask) : -1,
                          command.oom_score_adj.has_value() ? oom_score.c_str() : nullptr,
                          processes.has_value() ? &*processes : nullptr,
                          ::getpid(),
                          &scope.child(),
                          &scope.killed(),
                          &ChangedSignals(),
                          &failure};
  int error = 0;
  int pidfd = -1;
  const pid_t pid = StartChild(plan, pidfd, error);
  scope.End();
  if (pid < 0) return ErrnoStatus(error, "fork for", command.program);
  if (pidfd < 0) pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  UniqueFd exit_fd(pidfd);
  if (failure.error == 0 && !exit_fd.valid()) {
    failure = {errno, "watch"};
    ::kill(-pid, SIGKILL);
  }
  if (failure.error != 0) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    if (!scope.killed()) return ErrnoStatus(failure.error, failure.step, command.program);
  }
  if (scope.killed()) {
    if (failure.error == 0) {
      ::kill(-pid, SIGKILL);
      while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    return absl::DeadlineExceededError(
        absl::StrCat(command.program,
                     " did not begin to run in time, and was given up; does the "
                     "file system of it, of its interpreter or of ",
                     command.directory, " hang (a mount whose server is gone)?"));
  }
  return StartedProcess{pid, std::move(exit_fd), std::move(link)};
}

RankProcess::RankProcess(StartedProcess process, ChildProcesses& children)
    : children_(children),
      pid_(process.pid),
      exit_fd_(std::move(process.exit_fd)),
      link_(std::move(process.link)) {
  children_.AddLeader(pid_);
}

absl::StatusOr<std::unique_ptr<RankProcess>> RankProcess::Start(const RankCommand& command,
                                                                ChildProcesses& children) {
  MUSTER_ASSIGN_OR_RETURN(StartedProcess process, LaunchProcess(command));
  return std::make_unique<RankProcess>(std::move(process), children);
}

RankProcess::~RankProcess() {
  if (reaped_) return;
  SignalGroup(SIGKILL);
  Signal(SIGKILL);
  while (::waitpid(pid_, nullptr, given_up_ ? WNOHANG : 0) < 0 && errno == EINTR) {
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
