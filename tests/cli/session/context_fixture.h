// A person's machine with contexts and token files in a folder of its own, and an environment that
// tests set.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "cli/session/context.h"
#include "tests/support/temp_dir.h"

namespace muster::cli {

class ContextFixture : public ::testing::Test {
 protected:
  ContextFixture() {
    env_["XDG_CONFIG_HOME"] = dir_ / "config";
    host_.env = [this](const char* name) -> std::optional<std::string> {
      const auto it = env_.find(name);
      return it == env_.end() ? std::nullopt : std::optional<std::string>(it->second);
    };
  }

  // Its path; others cannot read it.
  std::string TokenFile(const std::string& name, const std::string& token) {
    const std::string path = dir_ / name;
    std::ofstream(path) << token;
    ::chmod(path.c_str(), 0600);
    return path;
  }
  absl::StatusOr<Endpoint> Find(const ContextFlags& flags = {}) {
    return FindController(host_, PosixFileSystem(), flags);
  }

  muster::testing::TempDir dir_;
  std::map<std::string, std::string> env_;
  std::istringstream in_;
  std::ostringstream out_;
  Host host_{.in = in_, .out = out_, .err = out_};
};

}  // namespace muster::cli
