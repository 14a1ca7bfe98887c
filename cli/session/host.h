// What a command touches of the world around it, so that tests run commands in their own process.
#pragma once

#include <cstddef>
#include <functional>
#include <istream>
#include <optional>
#include <ostream>
#include <string>

#include "absl/time/time.h"

namespace muster::cli {

struct Host {
  std::istream& in;
  std::ostream& out;  // data
  std::ostream& err;  // progress, warnings and errors
  // Whether `out` is a terminal: only then is anything redrawn in place.
  bool terminal = false;
  // Whether the terminal's encoding knows more than ASCII.
  bool unicode = false;
  size_t width = 100;
  std::function<std::optional<std::string>(const char* name)> env;

  std::string Env(const char* name) const { return env(name).value_or(""); }
};

// The process's own streams and environment, which must outlive it.
Host ProcessHost();

// The folder that the process runs in; empty when it is gone.
std::string WorkingDirectory();

// Wall clock, and a clock that never goes back; commands ask these instead of the libraries.
absl::Time WallNow();
absl::Duration SteadyNow();

}  // namespace muster::cli
