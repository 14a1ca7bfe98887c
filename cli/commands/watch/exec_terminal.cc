#include "cli/commands/watch/exec_terminal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::cli {
namespace {

constexpr int kEndingSignals[] = {SIGTERM, SIGHUP, SIGQUIT};

// What signal handlers can reach. -1: no terminal is taken.
std::atomic<int> resized_fd = -1;
termios before;  // set while none is

void OnResize(int) {
  const int saved = errno;
  if (const int fd = resized_fd.load(); fd >= 0) ::eventfd_write(fd, 1);
  errno = saved;
}

void OnEnd(int number) {
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before);
  ::signal(number, SIG_DFL);
  ::raise(number);
}

void Handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(number, &action, nullptr);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExecTerminal>> ExecTerminal::Take() {
  if (::tcgetattr(STDIN_FILENO, &before) != 0) {
    return absl::InvalidArgumentError(
        "--tty: standard input is no terminal; -i alone passes it to the program");
  }
  std::unique_ptr<ExecTerminal> terminal(new ExecTerminal());
  terminal->resized_.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  resized_fd = terminal->resized();
  Handle(SIGWINCH, OnResize);
  for (const int number : kEndingSignals) Handle(number, OnEnd);
  termios raw = before;
  ::cfmakeraw(&raw);
  if (!terminal->resized_.valid() || ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) != 0) {
    return absl::InternalError(absl::StrCat("cannot take the terminal: ", ::strerror(errno)));
  }
  return terminal;
}

ExecTerminal::~ExecTerminal() {
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
  ::signal(SIGWINCH, SIG_DFL);
  for (const int number : kEndingSignals) ::signal(number, SIG_DFL);
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

std::string LeaveKeys::Pass(absl::string_view keys, bool& leave) {
  std::string passed;
  for (const char key : keys) {
    if (std::exchange(tilde_, false)) {
      leave = key == '.';
      if (leave) return passed;
      if (key != '~') passed.push_back('~');
      at_begin_ = false;
    }
    tilde_ = at_begin_ && key == '~';
    if (!tilde_) passed.push_back(key);
    at_begin_ = key == '\r' || key == '\n';
  }
  return passed;
}

}  // namespace muster::cli
