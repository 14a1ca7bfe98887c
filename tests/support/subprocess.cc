#include "tests/support/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

namespace muster::testing {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(50);
constexpr absl::Duration kKillWait = absl::Seconds(20);

// What can be read; empty for a file that is not there. By read(2): a file of /proc fails with
// ESRCH when its process ends meanwhile, and std::filebuf throws then.
std::string ReadAll(const std::string& path) {
  std::string text;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char buffer[4096];
  for (ssize_t count = ::read(fd, buffer, sizeof(buffer)); count > 0;
       count = ::read(fd, buffer, sizeof(buffer))) {
    text.append(buffer, static_cast<size_t>(count));
  }
  ::close(fd);
  return text;
}

// Forks and executes; the child's outputs go to the two files.
pid_t Spawn(const std::vector<std::string>& argv, const Environment& environment,
            const std::string& out_path, const std::string& err_path) {
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const int in = ::open("/dev/null", O_RDONLY);
  const int out = ::open(out_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int err =
      out_path == err_path ? out : ::open(err_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(in, 0);
  ::dup2(out, 1);
  ::dup2(err, 2);
  for (const auto& [name, value] : environment) {
    if (value.empty()) {
      ::unsetenv(name.c_str());
    } else {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ::execvp(arguments[0], arguments.data());
  ::fprintf(stderr, "cannot start %s\n", arguments[0]);
  ::_exit(127);
}

int ExitCode(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The fields of /proc/PID/stat after the command's name, which may hold anything: state first.
std::vector<std::string> StatFields(pid_t pid) {
  const std::string text = ReadAll(absl::StrCat("/proc/", pid, "/stat"));
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return {};
  return absl::StrSplit(text.substr(end + 1), ' ', absl::SkipWhitespace());
}

}  // namespace

absl::Time Now() { return absl::Now(); }
void PollPause() { absl::SleepFor(kPollInterval); }

ProcessResult RunProcess(const std::vector<std::string>& argv, const Environment& environment,
                         absl::Duration timeout) {
  std::string out_path = std::filesystem::temp_directory_path() / "muster-run-XXXXXX";
  ::close(::mkstemp(out_path.data()));
  const std::string err_path = out_path + ".err";
  ProcessResult result;
  {
    const pid_t pid = Spawn(argv, environment, out_path, err_path);
    int status = 0;
    const bool ended =
        pid > 0 && WaitUntil(timeout, [&] { return ::waitpid(pid, &status, WNOHANG) == pid; });
    if (pid > 0 && !ended) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      result.timed_out = true;
    }
    if (pid > 0) result.exit_code = ExitCode(status);
  }
  result.out = ReadAll(out_path);
  result.err = ReadAll(err_path);
  std::error_code ignored;
  std::filesystem::remove(out_path, ignored);
  std::filesystem::remove(err_path, ignored);
  return result;
}

Subprocess::Subprocess(const std::vector<std::string>& argv, const Environment& environment,
                       const std::string& log_path)
    : pid_(Spawn(argv, environment, log_path, log_path)) {}

Subprocess::~Subprocess() {
  if (ended_ || pid_ <= 0) return;
  Signal(SIGKILL);
  Wait(kKillWait);
}

void Subprocess::Signal(int signal) {
  if (!ended_ && pid_ > 0) ::kill(pid_, signal);
}

bool Subprocess::Wait(absl::Duration timeout) {
  return ended_ || WaitUntil(timeout, [this] {
           int status = 0;
           if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
           ended_ = true;
           exit_code_ = ExitCode(status);
           return true;
         });
}

ProcessId IdentifyProcess(pid_t pid) {
  const std::vector<std::string> fields = StatFields(pid);
  // proc(5): field 22 is the start time; the state is field 3.
  return {pid, fields.size() > 19 ? fields[19] : ""};
}

bool IsAlive(const ProcessId& process) {
  const std::vector<std::string> fields = StatFields(process.pid);
  return fields.size() > 19 && fields[19] == process.start_time && fields[0] != "Z" &&
         fields[0] != "X";
}

namespace {

// "PID COMMAND LINE" of each living process but this one of which `wanted` says so.
template <typename Wanted>
std::vector<std::string> FindProcesses(const Wanted& wanted) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid) || pid == ::getpid()) continue;
    std::string command = ReadAll(entry.path() / "cmdline");
    std::replace(command.begin(), command.end(), '\0', ' ');
    if (!wanted(pid, command)) continue;
    if (IsAlive(IdentifyProcess(pid))) found.push_back(absl::StrCat(pid, " ", command));
  }
  return found;
}

}  // namespace

std::vector<std::string> ProcessesMentioning(const std::string& text) {
  return FindProcesses([&](pid_t pid, const std::string& command) {
    return absl::StrContains(command, text) ||
           absl::StrContains(ReadAll(absl::StrCat("/proc/", pid, "/environ")), text);
  });
}

std::vector<std::string> ChildrenOf(pid_t parent) {
  return FindProcesses([&](pid_t pid, const std::string&) {
    const std::vector<std::string> fields = StatFields(pid);
    return fields.size() > 1 && fields[1] == absl::StrCat(parent);  // after the state
  });
}

}  // namespace muster::testing
