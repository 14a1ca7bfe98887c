#include "cli/commands/access/secret_prompt.h"

#include <errno.h>
#include <termios.h>
#include <unistd.h>

#include <iostream>

#include "absl/strings/ascii.h"
#include "cli/session/error.h"

namespace muster::cli {
namespace {

constexpr size_t kMostSecretText = 1024;
constexpr char kInterrupt = 0x03;
constexpr char kEnd = 0x04;
constexpr char kErase = 0x7f;

// The terminal without echo, and with Ctrl-C as a character: a signal would end the process and
// leave the terminal so.
class SilentTerminal {
 public:
  SilentTerminal() {
    if (::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios silent = before_;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | ISIG);
    silent.c_cc[VMIN] = 1;
    silent.c_cc[VTIME] = 0;
    changed_ = ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent) == 0;
  }
  ~SilentTerminal() {
    if (changed_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  }
  SilentTerminal(const SilentTerminal&) = delete;
  SilentTerminal& operator=(const SilentTerminal&) = delete;

  bool is_silent() const { return changed_; }

 private:
  termios before_{};
  bool changed_ = false;
};

absl::StatusOr<std::string> ReadSilently(Host& host, const std::string& prompt) {
  const SilentTerminal terminal;
  if (!terminal.is_silent()) {
    return absl::InternalError("the terminal's echo cannot be switched off: use --token-file");
  }
  host.err << prompt << std::flush;
  std::string text;
  while (true) {
    char c = 0;
    const ssize_t count = ::read(STDIN_FILENO, &c, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || c == '\n' || c == '\r' || c == kEnd) break;
    if (c == kInterrupt) {
      host.err << std::endl;
      return Interrupted("interrupted: nothing was changed");
    }
    if (c == kErase || c == '\b') {
      if (!text.empty()) text.pop_back();
    } else if (text.size() <= kMostSecretText) {
      text.push_back(c);
    }
  }
  host.err << std::endl;
  return text;
}

// A line, of which no more is kept than a token may have.
std::string ReadLine(std::istream& in) {
  std::string text;
  char c = 0;
  while (text.size() <= kMostSecretText && in.get(c) && c != '\n') text.push_back(c);
  return text;
}

}  // namespace

absl::StatusOr<std::string> ReadSecret(Host& host, const std::string& prompt) {
  const bool is_terminal = &host.in == &std::cin && ::isatty(STDIN_FILENO) == 1;
  absl::StatusOr<std::string> text = is_terminal ? ReadSilently(host, prompt) : ReadLine(host.in);
  if (!text.ok()) return text;
  if (text->size() > kMostSecretText) {
    return absl::InvalidArgumentError("the token is longer than any is");
  }
  absl::StripAsciiWhitespace(&*text);
  if (text->empty()) return absl::InvalidArgumentError("no token was given: nothing was changed");
  return text;
}

}  // namespace muster::cli
