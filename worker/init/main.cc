// muster-init: the first process of a command's container, `muster-init PROGRAM [ARGUMENT]...`.
//
// As process 1 a program would not die of a signal that it does not handle, and would have to reap
// what its children leave. So this is process 1 instead: it starts the program, passes signals on
// to it, and ends with it, and the kernel then ends whatever else is in the container. When the
// program died of the SIGTERM that was passed on (a shell does), the rest is asked by SIGTERM too
// and waited for, as a rank without a container is.
//
// Descriptor 3 is a socket to the agent, where it is one. When the agent closes it, or dies, all
// ends at once. worker/agent/container/container_socket.h tells what it says there. It runs in
// images of any kind: linked statically, without the C++ library's help.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr int kLinkFd = 3;
// As worker/agent/container/container_rules.h has it.
constexpr char kPackedVariable[] = "MUSTER_PACKED_";
constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;
constexpr int kSignalBase = 128;

struct Init {
  int link = -1;  // -1: nobody listens
  int signals = -1;
  pid_t program = 0;
  bool asked = false;  // SIGTERM was passed on
  bool ended = false;  // the program has
  int signal = 0;      // by this one, unless 0
  int code = 0;        // and this is what we end with
};

void Say(const Init& init, const char* line) {
  if (init.link < 0) return;
  [[maybe_unused]] const ssize_t sent =
      ::send(init.link, line, ::strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT);
}

int OpenLink() {
  struct stat info = {};
  if (::fstat(kLinkFd, &info) != 0 || !S_ISSOCK(info.st_mode)) return -1;
  ::fcntl(kLinkFd, F_SETFD, FD_CLOEXEC);
  return kLinkFd;
}

int HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

// Sets each variable that came packed, in the place of what carried it: values of several lines
// pass no file of lines.
void UnpackVariables() {
  constexpr size_t kPrefix = sizeof kPackedVariable - 1;
  size_t kept = 0;
  for (size_t i = 0; environ[i] != nullptr; ++i) {
    char* entry = environ[i];
    environ[kept++] = entry;
    if (::strncmp(entry, kPackedVariable, kPrefix) != 0) continue;
    const char* from = ::strchr(entry, '=');
    if (from == nullptr) continue;
    // What it says is half as long as what carries it.
    char* to = entry;
    for (++from; HexDigit(from[0]) >= 0 && HexDigit(from[1]) >= 0; from += 2) {
      *to++ = static_cast<char>(HexDigit(from[0]) * 16 + HexDigit(from[1]));
    }
    *to = '\0';
    if (::strchr(entry, '=') == nullptr) --kept;
  }
  environ[kept] = nullptr;
}

// To everything in the container but us. A container that shares the machine's process numbers has
// no such border: there the program alone is meant.
void SignalAll(const Init& init, int signal) {
  if (::getpid() == 1) {
    ::kill(-1, signal);
  } else if (!init.ended) {
    ::kill(init.program, signal);
  }
}

[[noreturn]] void RunProgram(char** argv, const sigset_t& signals, int report) {
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  ::execvp(argv[0], argv);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(report, &error, sizeof error);
  ::_exit(error == ENOENT ? kNotFound : kCannotRun);
}

// Returns when the program runs, or says why it does not.
void Start(Init& init, char** argv) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  init.signals = ::signalfd(-1, &all, SFD_CLOEXEC);
  int report[2];
  int error = 0;
  if (init.signals < 0 || ::pipe2(report, O_CLOEXEC) != 0) error = errno;
  if (error == 0) init.program = ::fork();
  if (error == 0 && init.program == 0) RunProgram(argv, before, report[1]);
  if (error == 0 && init.program < 0) error = errno;
  if (error == 0) {
    ::close(report[1]);
    if (::read(report[0], &error, sizeof error) != sizeof error) error = 0;
    ::close(report[0]);
  }
  if (error == 0) return Say(init, "running\n");
  char line[512];
  ::snprintf(line, sizeof line, "cannot run `%.256s` in the container: %s\n", argv[0],
             ::strerror(error));
  ::fputs(line, stderr);
  Say(init, line);
  ::_exit(error == ENOENT ? kNotFound : kCannotRun);
}

// Whether the kernel ended a process of ours because the container needed more memory than it may
// have: its own cgroup counts that, of the second version or the first.
bool WasOutOfMemory() {
  constexpr const char* kCounts[] = {"/sys/fs/cgroup/memory.events",
                                     "/sys/fs/cgroup/memory/memory.oom_control"};
  for (const char* path : kCounts) {
    FILE* file = ::fopen(path, "re");
    char line[128];
    unsigned long kills = 0;
    while (file != nullptr && kills == 0 && ::fgets(line, sizeof line, file) != nullptr) {
      ::sscanf(line, "oom_kill %lu", &kills);
    }
    if (file != nullptr) ::fclose(file);
    if (kills > 0) return true;
  }
  return false;
}

[[noreturn]] void End(const Init& init) {
  char line[32];
  if (WasOutOfMemory()) Say(init, "out_of_memory\n");
  if (init.signal != 0) {
    ::snprintf(line, sizeof line, "signal %d\n", init.signal);
  } else {
    ::snprintf(line, sizeof line, "exit %d\n", init.code);
  }
  Say(init, line);
  ::_exit(init.code);
}

void OnProgramEnd(Init& init, int status) {
  init.ended = true;
  init.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  init.code = init.signal != 0 ? kSignalBase + init.signal : WEXITSTATUS(status);
  const bool of_the_wish = init.asked && init.code == kSignalBase + SIGTERM;
  if (!of_the_wish || ::getpid() != 1) End(init);
  SignalAll(init, SIGTERM);
}

void ReapAll(Init& init) {
  int status = 0;
  pid_t pid = 0;
  while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid == init.program) OnProgramEnd(init, status);
  }
  if (pid < 0 && errno == ECHILD && init.ended) End(init);
}

void OnSignal(Init& init) {
  signalfd_siginfo info = {};
  if (::read(init.signals, &info, sizeof info) != sizeof info) return;
  const int signal = static_cast<int>(info.ssi_signo);
  if (signal == SIGCHLD) return ReapAll(init);
  if (signal == SIGTERM) init.asked = true;
  init.ended ? SignalAll(init, signal) : static_cast<void>(::kill(init.program, signal));
}

// What the agent sends is nothing: anything but silence is its end.
[[noreturn]] void OnAgentGone(const Init& init) {
  SignalAll(init, SIGKILL);
  ::_exit(kSignalBase + SIGKILL);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    ::fputs("usage: muster-init PROGRAM [ARGUMENT]...\n", stderr);
    return 2;
  }
  UnpackVariables();
  Init init;
  init.link = OpenLink();
  Start(init, argv + 1);
  pollfd watched[] = {{init.signals, POLLIN, 0}, {init.link, POLLIN, 0}};
  while (true) {
    if (::poll(watched, 2, -1) < 0 && errno != EINTR) return 1;
    if (watched[1].revents != 0) OnAgentGone(init);
    if (watched[0].revents != 0) OnSignal(init);
  }
}
