#include "cli/commands/trainer/trainer_program.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

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

constexpr char kProgram[] = "muster-trainer";

absl::Status Failed(absl::string_view what, int error) {
  return absl::InternalError(absl::StrCat(kProgram, ": ", what, ": ", std::strerror(error)));
}

absl::StatusOr<std::string> ProgramPath(const Host& host) {
  std::string folder = host.Env("MUSTER_BIN_DIR");
  if (folder.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const std::string self, OwnPath());
    folder = self.substr(0, self.rfind('/'));
  }
  const std::string path = absl::StrCat(folder, "/", kProgram);
  if (::access(path.c_str(), X_OK) == 0) return path;
  return absl::NotFoundError(absl::StrCat(
      path,
      " is not there: this machine has no trainer beside `muster` (MUSTER_BIN_DIR names "
      "another folder)"));
}

// A file in memory: unlike a pipe it is never full, so nobody has to read while another writes.
absl::StatusOr<UniqueFd> MemoryFile(const std::string& text) {
  UniqueFd fd(::memfd_create(kProgram, MFD_CLOEXEC));
  if (fd.get() < 0) return Failed("memfd_create", errno);
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(fd.get(), text.data() + done, text.size() - done);
    if (count < 0) return Failed("writing its input", errno);
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

// Starts the program with these three files as its first and returns its status as waitpid gives
// it.
absl::StatusOr<int> SpawnAndWait(const std::string& path, const std::vector<std::string>& arguments,
                                 const UniqueFd (&files)[3]) {
  std::vector<char*> argv = {const_cast<char*>(kProgram)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (int i = 0; i < 3; ++i) ::posix_spawn_file_actions_adddup2(&actions, files[i].get(), i);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, path.c_str(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Failed("cannot be started", error);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return Failed("waitpid", errno);
  }
  return status;
}

}  // namespace

absl::StatusOr<std::string> RunTrainer(const std::vector<std::string>& arguments,
                                       const std::string& input, const Host& host) {
  MUSTER_ASSIGN_OR_RETURN(const std::string path, ProgramPath(host));
  UniqueFd files[3];
  MUSTER_ASSIGN_OR_RETURN(files[0], MemoryFile(input));
  MUSTER_ASSIGN_OR_RETURN(files[1], MemoryFile(""));
  MUSTER_ASSIGN_OR_RETURN(files[2], MemoryFile(""));
  MUSTER_ASSIGN_OR_RETURN(const int status, SpawnAndWait(path, arguments, files));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ReadAll(files[1].get());
  const std::string words = ReadAll(files[2].get());
  if (!WIFEXITED(status)) {
    return absl::InternalError(
        absl::StrCat(kProgram, " was ended by signal ", WTERMSIG(status), ": ", words));
  }
  absl::string_view message = absl::StripSuffix(words, "\n");
  absl::ConsumePrefix(&message, absl::StrCat(kProgram, ": "));
  return absl::InvalidArgumentError(message);
}

}  // namespace muster::cli
