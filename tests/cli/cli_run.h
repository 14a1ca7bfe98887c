// Runs `muster` in the test's own process, with streams and environment of its own.
#pragma once

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cli/app.h"
#include "common/fs/file_system.h"
#include "tests/support/temp_dir.h"

namespace muster::cli::testing {

struct CliResult {
  int code = -1;
  std::string out;
  std::string err;
};

class CliRun {
 public:
  CliRun() { env_["XDG_CONFIG_HOME"] = dir_ / "config"; }

  std::map<std::string, std::string>& env() { return env_; }
  const muster::testing::TempDir& dir() const { return dir_; }
  bool terminal = false;
  bool full_disk = false;  // what is printed cannot be written

  CliResult operator()(const std::vector<std::string>& args, const std::string& input = "") {
    std::istringstream in(input);
    std::ostringstream out;
    std::ostringstream err;
    if (full_disk) out.setstate(std::ios::badbit);
    Host host{.in = in, .out = out, .err = err, .terminal = terminal};
    host.env = [this](const char* name) -> std::optional<std::string> {
      const auto it = env_.find(name);
      if (it == env_.end() || it->second.empty()) return std::nullopt;
      return it->second;
    };
    const int code = RunMuster(args, host, PosixFileSystem());
    return {code, out.str(), err.str()};
  }

 private:
  muster::testing::TempDir dir_;
  std::map<std::string, std::string> env_;
};

}  // namespace muster::cli::testing
