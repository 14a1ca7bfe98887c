#include "worker/agent/exec/exec_program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr absl::string_view kEndOfInput = "\x04";  // Ctrl-D, as a terminal takes it

absl::Status NoStream(const char* what) {
  return absl::ResourceExhaustedError(absl::StrCat("cannot make ", what, ": ", ::strerror(errno)));
}

struct Pipe {
  UniqueFd read, write;
};
absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return NoStream("a pipe");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

struct Terminal {
  UniqueFd ours, theirs;
};
absl::StatusOr<Terminal> MakeTerminal() {
  Terminal terminal;
  terminal.ours.Reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  char name[128];
  if (!terminal.ours.valid() || ::grantpt(terminal.ours.get()) != 0 ||
      ::unlockpt(terminal.ours.get()) != 0 ||
      ::ptsname_r(terminal.ours.get(), name, sizeof name) != 0) {
    return NoStream("a terminal");
  }
  terminal.theirs.Reset(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal.theirs.valid()) return NoStream("a terminal");
  return terminal;
}

void DoNotBlock(const UniqueFd& fd) {
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

void SetSize(int terminal, const v1::TerminalSize& size) {
  winsize text = {};
  text.ws_row = static_cast<unsigned short>(std::min<uint32_t>(size.rows(), UINT16_MAX));
  text.ws_col = static_cast<unsigned short>(std::min<uint32_t>(size.columns(), UINT16_MAX));
  ::ioctl(terminal, TIOCSWINSZ, &text);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExecProgram>> ExecProgram::Start(
    RankCommand command, const std::optional<v1::TerminalSize>& terminal, LaunchWatch& watch) {
  std::unique_ptr<ExecProgram> program(new ExecProgram());
  program->stop_.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!program->stop_.valid()) return NoStream("an event");
  command.link = false;
  if (terminal.has_value()) {
    MUSTER_ASSIGN_OR_RETURN(Terminal pair, MakeTerminal());
    SetSize(pair.ours.get(), *terminal);
    const int theirs = pair.theirs.get();
    command.streams = RankCommand::Streams{theirs, theirs, theirs, /*is_terminal=*/true};
    MUSTER_ASSIGN_OR_RETURN(program->process_, LaunchProcess(command, &watch));
    program->has_terminal_ = true;
    program->in_.Reset(::fcntl(pair.ours.get(), F_DUPFD_CLOEXEC, 0));
    program->out_ = std::move(pair.ours);
  } else {
    MUSTER_ASSIGN_OR_RETURN(Pipe in, MakePipe());
    MUSTER_ASSIGN_OR_RETURN(Pipe out, MakePipe());
    MUSTER_ASSIGN_OR_RETURN(Pipe err, MakePipe());
    command.streams = RankCommand::Streams{in.read.get(), out.write.get(), err.write.get(), false};
    MUSTER_ASSIGN_OR_RETURN(program->process_, LaunchProcess(command, &watch));
    program->in_ = std::move(in.write);
    program->out_ = std::move(out.read);
    program->err_ = std::move(err.read);
    DoNotBlock(program->err_);
  }
  DoNotBlock(program->in_);
  DoNotBlock(program->out_);
  return program;
}

ExecProgram::~ExecProgram() {
  if (reaped_ || process_.pid == 0) return;
  ::kill(-process_.pid, SIGKILL);
  Wait();
}

bool ExecProgram::Write(absl::string_view input) {
  while (!input.empty() && in_.valid()) {
    const ssize_t written = ::write(in_.get(), input.data(), input.size());
    if (written > 0) {
      input.remove_prefix(static_cast<size_t>(written));
      continue;
    }
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno != EAGAIN) return false;
    pollfd waits[] = {{in_.get(), POLLOUT, 0}, {stop_.get(), POLLIN, 0}};
    ::poll(waits, 2, -1);
    if (waits[1].revents != 0) return false;
  }
  return in_.valid();
}

void ExecProgram::EndInput() {
  if (has_terminal_) {
    Write(kEndOfInput);
  } else {
    in_.Reset();
  }
}

void ExecProgram::Resize(const v1::TerminalSize& size) {
  if (has_terminal_) SetSize(in_.get(), size);
}

void ExecProgram::StopInput() { ::eventfd_write(stop_.get(), 1); }

void ExecProgram::Hangup(absl::Duration patience) {
  ::kill(-process_.pid, SIGHUP);
  pollfd ended = {exit_fd(), POLLIN, 0};
  ::poll(&ended, 1, static_cast<int>(absl::ToInt64Milliseconds(patience)));
  ::kill(-process_.pid, SIGKILL);
}

ExitStatus ExecProgram::Wait() {
  // Its group keeps its number until it is reaped.
  siginfo_t info;
  while (::waitid(P_PID, static_cast<id_t>(process_.pid), &info, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  ::kill(-process_.pid, SIGKILL);
  int status = 0;
  while (::waitpid(process_.pid, &status, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  ExitStatus exit;
  exit.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  exit.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return exit;
}

}  // namespace muster::worker
