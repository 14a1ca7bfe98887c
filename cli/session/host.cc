#include "cli/session/host.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "common/base/clock.h"

namespace muster::cli {
namespace {

std::optional<std::string> ProcessEnv(const char* name) {
  const char* value = ::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

// The first of the three that is set decides, as in setlocale(3).
bool LocaleIsUnicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (const auto value = ProcessEnv(name); value.has_value()) {
      const std::string lower = absl::AsciiStrToLower(*value);
      return absl::StrContains(lower, "utf-8") || absl::StrContains(lower, "utf8");
    }
  }
  return false;
}

}  // namespace

Host ProcessHost() {
  Host host{.in = std::cin, .out = std::cout, .err = std::cerr};
  host.terminal = ::isatty(STDOUT_FILENO) == 1 && ProcessEnv("TERM").value_or("dumb") != "dumb";
  host.unicode = LocaleIsUnicode();
  host.env = ProcessEnv;
  struct winsize size {};
  if (host.terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    host.width = size.ws_col;
  return host;
}

std::string WorkingDirectory() {
  char* const cwd = ::get_current_dir_name();
  const std::unique_ptr<char, void (*)(void*)> owner(cwd, ::free);
  return cwd == nullptr ? "" : cwd;
}

absl::Time WallNow() { return RealClock().Now(); }

absl::Duration SteadyNow() { return RealClock().SinceBoot(); }

}  // namespace muster::cli
