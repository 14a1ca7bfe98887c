// Starts programs for tests and waits for them with a deadline. Linux only.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace muster::testing {

struct ProcessResult {
  int exit_code = -1;  // 128 + signal for one that died by a signal; -1: it could not be started
  bool timed_out = false;  // it was killed at the deadline
  std::string out;
  std::string err;
};

// Environment entries to set; an empty value takes the entry away.
using Environment = std::map<std::string, std::string>;

// Runs argv[0] (a path, or a name on PATH) to its end, at most `timeout`.
ProcessResult RunProcess(const std::vector<std::string>& argv, const Environment& environment,
                         absl::Duration timeout);

// A program in the background. The destructor kills it and waits for it.
class Subprocess {
 public:
  // Both of its outputs go to the file at `log_path`.
  Subprocess(const std::vector<std::string>& argv, const Environment& environment,
             const std::string& log_path);
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal);
  // True when it ended within `timeout`; then exit_code() tells how, as in ProcessResult.
  bool Wait(absl::Duration timeout);
  int exit_code() const { return exit_code_; }

 private:
  pid_t pid_ = -1;
  bool ended_ = false;
  int exit_code_ = -1;
};

// A process by pid and start time: two that got the same pid one after the other differ.
struct ProcessId {
  pid_t pid = 0;
  std::string start_time;
};
ProcessId IdentifyProcess(pid_t pid);
// False for one that ended, also as a zombie that nobody has waited for.
bool IsAlive(const ProcessId& process);

// The living processes whose command line or environment holds `text`, as "PID COMMAND LINE".
std::vector<std::string> ProcessesMentioning(const std::string& text);

// The living children of a process, likewise: of an agent also what its ranks left behind, under
// whatever name and environment.
std::vector<std::string> ChildrenOf(pid_t parent);

// Polls `condition` until it holds; false when it did not within `timeout`.
template <typename Condition>
bool WaitUntil(absl::Duration timeout, Condition condition);

// The pause between two looks of WaitUntil.
void PollPause();
absl::Time Now();

template <typename Condition>
bool WaitUntil(absl::Duration timeout, Condition condition) {
  const absl::Time deadline = Now() + timeout;
  while (!condition()) {
    if (Now() > deadline) return false;
    PollPause();
  }
  return true;
}

}  // namespace muster::testing
