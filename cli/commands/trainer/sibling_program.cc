#include "cli/commands/trainer/sibling_program.h"

#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/local/daemon_process.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"

extern char** environ;

namespace muster::cli {
namespace {

constexpr char kTrainer[] = "muster-trainer";
constexpr char kDataTool[] = "muster-data";

absl::Status Failed(absl::string_view program, absl::string_view what, int error) {
  return absl::InternalError(absl::StrCat(program, ": ", what, ": ", std::strerror(error)));
}

absl::StatusOr<std::string> ProgramPath(absl::string_view program, const Host& host) {
  std::string folder = host.Env("MUSTER_BIN_DIR");
  if (folder.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const std::string self, OwnPath());
    folder = self.substr(0, self.rfind('/'));
  }
  const std::string path = absl::StrCat(folder, "/", program);
  if (::access(path.c_str(), X_OK) == 0) return path;
  return absl::NotFoundError(
      absl::StrCat(path, " is not there: this machine has no ", program,
                   " beside `muster` (MUSTER_BIN_DIR names another folder)"));
}

// A file in memory: unlike a pipe it is never full, so nobody has to read while another writes.
absl::StatusOr<UniqueFd> MemoryFile(const std::string& text) {
  UniqueFd fd(::memfd_create("muster", MFD_CLOEXEC));
  if (fd.get() < 0) return Failed("muster", "memfd_create", errno);
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(fd.get(), text.data() + done, text.size() - done);
    if (count < 0) return Failed("muster", "writing a program's input", errno);
    done += static_cast<size_t>(count);
  }
  ::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

std::string ReadAll(int fd) {
  std::string text;
  char buffer[1 << 16];
  ::lseek(fd, 0, SEEK_SET);
  for (ssize_t count; (count = ::read(fd, buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(count));
  }
  return text;
}

// Starts the program with these files as its first, -1 being this process's own, and returns its
// status as waitpid gives it.
absl::StatusOr<int> SpawnAndWait(const char* program, const Host& host,
                                 const std::vector<std::string>& arguments,
                                 const std::array<int, 3>& files) {
  MUSTER_ASSIGN_OR_RETURN(const std::string path, ProgramPath(program, host));
  std::vector<char*> argv = {const_cast<char*>(program)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (int i = 0; i < 3; ++i) {
    const int file = files[static_cast<size_t>(i)];
    if (file >= 0) ::posix_spawn_file_actions_adddup2(&actions, file, i);
  }
  // The program has the signals as they are by default, whatever this process does with them.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, path.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Failed(program, "cannot be started", error);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return Failed(program, "waitpid", errno);
  }
  return status;
}

// While one lives, Ctrl-C does not end this process: it is for the program in the foreground.
class LeaveInterruptsToOthers {
 public:
  LeaveInterruptsToOthers() {
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &ignore, &before_);
  }
  ~LeaveInterruptsToOthers() { ::sigaction(SIGINT, &before_, nullptr); }
  LeaveInterruptsToOthers(const LeaveInterruptsToOthers&) = delete;
  LeaveInterruptsToOthers& operator=(const LeaveInterruptsToOthers&) = delete;

 private:
  struct sigaction before_ = {};
};

}  // namespace

absl::StatusOr<std::string> RunTrainer(const std::vector<std::string>& arguments,
                                       const std::string& input, const Host& host) {
  UniqueFd files[3];
  MUSTER_ASSIGN_OR_RETURN(files[0], MemoryFile(input));
  MUSTER_ASSIGN_OR_RETURN(files[1], MemoryFile(""));
  MUSTER_ASSIGN_OR_RETURN(files[2], MemoryFile(""));
  MUSTER_ASSIGN_OR_RETURN(
      const int status,
      SpawnAndWait(kTrainer, host, arguments, {files[0].get(), files[1].get(), files[2].get()}));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ReadAll(files[1].get());
  const std::string words = ReadAll(files[2].get());
  if (!WIFEXITED(status)) {
    return absl::InternalError(
        absl::StrCat(kTrainer, " was ended by signal ", WTERMSIG(status), ": ", words));
  }
  absl::string_view message = absl::StripSuffix(words, "\n");
  absl::ConsumePrefix(&message, absl::StrCat(kTrainer, ": "));
  return absl::InvalidArgumentError(message);
}

absl::StatusOr<int> RunDataTool(const std::vector<std::string>& arguments,
                                const std::optional<std::string>& input, const Host& host) {
  UniqueFd in;
  if (input.has_value()) {
    MUSTER_ASSIGN_OR_RETURN(in, MemoryFile(*input));
  }
  const LeaveInterruptsToOthers leave;
  MUSTER_ASSIGN_OR_RETURN(const int status,
                          SpawnAndWait(kDataTool, host, arguments, {in.get(), -1, -1}));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace muster::cli
