#include "cli/commands/watch/exec_terminal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>

#include "absl/strings/str_cat.h"

namespace muster::cli {
namespace {

// The one thing that the signal handler can reach. -1: no terminal is taken.
std::atomic<int> resized_fd = -1;

void OnResize(int) {
  const int saved = errno;
  if (const int fd = resized_fd.load(); fd >= 0) ::eventfd_write(fd, 1);
  errno = saved;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExecTerminal>> ExecTerminal::Take() {
  std::unique_ptr<ExecTerminal> terminal(new ExecTerminal());
  if (::tcgetattr(STDIN_FILENO, &terminal->before_) != 0) {
    return absl::InvalidArgumentError(
        "--tty: standard input is no terminal; -i alone passes it to the program");
  }
  terminal->resized_.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  termios raw = terminal->before_;
  ::cfmakeraw(&raw);
  if (!terminal->resized_.valid() || ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) != 0) {
    return absl::InternalError(absl::StrCat("cannot take the terminal: ", ::strerror(errno)));
  }
  resized_fd = terminal->resized();
  struct sigaction action {};
  action.sa_handler = OnResize;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGWINCH, &action, nullptr);
  return terminal;
}

ExecTerminal::~ExecTerminal() {
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  if (!resized_.valid()) return;
  ::signal(SIGWINCH, SIG_DFL);
  resized_fd = -1;
}

v1::TerminalSize ExecTerminal::size() const {
  winsize now = {};
  ::ioctl(STDIN_FILENO, TIOCGWINSZ, &now);
  v1::TerminalSize size;
  size.set_rows(now.ws_row);
  size.set_columns(now.ws_col);
  return size;
}

}  // namespace muster::cli
