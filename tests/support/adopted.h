// Processes whose starter has died, however they hide: the test process adopts them (it is a
// subreaper), where a look at environments and command lines passes over what has neither.
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster::testing {

// From now on what outlives its starter below this process becomes its child.
inline void AdoptOrphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

// "PID NAME" of this process's living children, but those that run one of `expected`.
inline std::vector<std::string> AdoptedProcesses(const std::vector<std::string>& expected) {
  std::vector<std::string> found;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream children(thread.path() / "children");
    for (pid_t pid = 0; children >> pid;) {
      const std::string process = absl::StrCat("/proc/", pid);
      std::string name;
      std::ifstream comm(process + "/comm");
      std::getline(comm, name);
      // "pid (name) state ..."
      std::string stat;
      std::ifstream in(process + "/stat");
      std::getline(in, stat);
      const size_t end = stat.rfind(')');
      if (end == std::string::npos || stat.size() < end + 3) continue;
      const bool is_dead = stat[end + 2] == 'Z' || stat[end + 2] == 'X';
      // The kernel keeps 15 characters of a name.
      const bool is_expected =
          std::any_of(expected.begin(), expected.end(),
                      [&](const std::string& one) { return one.substr(0, 15) == name; });
      if (!is_dead && !is_expected) found.push_back(absl::StrCat(pid, " ", name));
    }
  }
  return found;
}

}  // namespace muster::testing
