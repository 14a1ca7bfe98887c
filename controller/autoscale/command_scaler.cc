#include "controller/autoscale/command_scaler.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/deadline.h"
#include "common/base/unique_fd.h"

extern char** environ;

namespace muster::controller {
namespace {

constexpr size_t kKeptOutput = 1024;  // its last bytes
// Whether it has ended, and whether musterd stops, is looked for so often at least.
constexpr absl::Duration kLook = absl::Milliseconds(100);

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// The program in a process group of its own, with its output in the pipe.
absl::StatusOr<pid_t> Spawn(std::vector<std::string> argv, std::vector<std::string> environment,
                            int output) {
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
  ::posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  posix_spawnattr_t how;
  ::posix_spawnattr_init(&how);
  // musterd blocks the signals that end it, and ignores SIGPIPE.
  sigset_t none, pipe;
  ::sigemptyset(&none);
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  ::posix_spawnattr_setsigmask(&how, &none);
  ::posix_spawnattr_setsigdefault(&how, &pipe);
  ::posix_spawnattr_setpgroup(&how, 0);
  ::posix_spawnattr_setflags(
      &how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, argv[0].c_str(), &files, &how, Pointers(argv).data(),
                                  Pointers(environment).data());
  ::posix_spawnattr_destroy(&how);
  ::posix_spawn_file_actions_destroy(&files);
  if (error != 0) return absl::FailedPreconditionError(::strerror(error));
  return pid;
}

// Takes what is there, and keeps the end of it. False: nobody can write any more.
bool Drain(int fd, std::string& kept) {
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t count = ::read(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN;
    if (count == 0) return false;
    kept.append(bytes.data(), static_cast<size_t>(count));
    if (kept.size() > kKeptOutput) kept.erase(0, kept.size() - kKeptOutput);
  }
}

// For a log: what it said, in one line.
std::string Said(std::string output) {
  for (char& byte : output) {
    if (!absl::ascii_isprint(byte)) byte = ' ';
  }
  const absl::string_view text = absl::StripAsciiWhitespace(output);
  return text.empty() ? "; it printed nothing" : absl::StrCat("; it printed: ", text);
}

std::string HowEnded(int status) {
  if (WIFEXITED(status)) return absl::StrCat("exited with ", WEXITSTATUS(status));
  return absl::StrCat("was ended by signal ", WTERMSIG(status));
}

}  // namespace

std::vector<std::string> CommandScaler::Environment(const PoolDecision& decision) const {
  std::vector<std::string> variables = {
      absl::StrCat("MUSTER_POOL=", pool_), absl::StrCat("MUSTER_WORKERS=", decision.asked),
      absl::StrCat("MUSTER_WANTED=", decision.wanted),
      absl::StrCat("MUSTER_LEAVING=", absl::StrJoin(decision.leaving, " ")),
      absl::StrCat("MUSTER_STAYING=", absl::StrJoin(decision.staying, " "))};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!absl::StartsWith(*variable, "MUSTER_")) variables.emplace_back(*variable);
  }
  return variables;
}

absl::Status CommandScaler::ScaleTo(const PoolDecision& decision) {
  const std::string what = absl::StrCat("command ", argv_[0]);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return absl::UnavailableError(absl::StrCat(what, ": no pipe: ", ::strerror(errno)));
  }
  const UniqueFd output(ends[0]);
  UniqueFd input(ends[1]);
  const absl::StatusOr<pid_t> pid = Spawn(argv_, Environment(decision), input.get());
  input.Reset();
  if (!pid.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, ": does not start: ", pid.status().message()));
  }
  const Deadline deadline(deadline_);
  std::string said;
  int status = 0;
  bool ended = false, stopping = false;
  bool open = true;
  while (!ended && !deadline.over() && !stopping) {
    pollfd wait = {open ? output.get() : -1, POLLIN, 0};
    ::poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(kLook)));
    if (open) open = Drain(output.get(), said);
    siginfo_t info = {};
    // It is not waited for yet, so that its number stays its own until its group is ended.
    ended = ::waitid(P_PID, static_cast<id_t>(*pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == *pid;
    MutexLock lock(mutex_);
    stopping = stopping_;
  }
  siginfo_t end = {};
  const bool well =
      ended && ::waitid(P_PID, static_cast<id_t>(*pid), &end, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      end.si_code == CLD_EXITED && end.si_status == 0;
  // What it leaves running when all went well may be what it is for: a worker on this machine.
  if (!well) ::kill(-*pid, SIGKILL);
  while (::waitpid(*pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) {
    if (stopping) return absl::CancelledError(absl::StrCat(what, ": musterd stops"));
    return absl::DeadlineExceededError(absl::StrCat(what, ": ran for longer than ",
                                                    absl::FormatDuration(deadline_),
                                                    " and was killed", Said(said)));
  }
  if (open) Drain(output.get(), said);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(what, ": ", HowEnded(status), Said(said)));
}

void CommandScaler::Stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
}

}  // namespace muster::controller
