#include "tests/sim/runner.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "tests/sim/world.h"

namespace muster::sim {
namespace {

// A run that takes longer does not get on.
constexpr unsigned kMaxSecondsPerSeed = 300;
// What a run tells before its failure.
constexpr int kNumbers = 17;

std::string RunTwice(uint64_t seed) {
  const RunResult first = World(seed, /*print=*/false).Run();
  std::string failure = first.failure;
  if (failure.empty()) {
    const RunResult second = World(seed, /*print=*/false).Run();
    if (second.hash != first.hash) {
      failure = absl::StrCat("not reproducible: ", first.lines, " lines, then ", second.lines);
    }
  }
  const PreemptionCheck::Counts& stops = first.preemptions;
  return absl::StrCat(
      first.hash, "\t", first.jobs, "\t", absl::ToInt64Milliseconds(first.simulated), "\t",
      stops.preempted, "\t", stops.shrunk, "\t", stops.grown, "\t", stops.came_back_larger, "\t",
      stops.most_in_vain, "\t", first.clones, "\t", first.names_moved, "\t", first.undead, "\t",
      first.held_back, "\t", first.records, "\t", first.records_lost, "\t", first.strays, "\t",
      first.children_left, "\t", first.archived, "\t", failure);
}

[[noreturn]] void BeChild(uint64_t seed, int out) {
  const int silent = ::open("/dev/null", O_WRONLY);
  ::dup2(silent, STDERR_FILENO);
  ::alarm(kMaxSecondsPerSeed);
  const std::string text = RunTwice(seed);
  const ssize_t written = ::write(out, text.data(), text.size());
  ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
}

std::string DescribeDeath(int status) {
  if (!WIFSIGNALED(status)) return absl::StrCat("exit code ", WEXITSTATUS(status));
  switch (WTERMSIG(status)) {
    case SIGABRT:
      return "a check in the code failed (abort)";
    case SIGALRM:
      return "the run does not get on";
    default:
      return absl::StrCat("killed by signal ", WTERMSIG(status));
  }
}

}  // namespace

Outcome RunSeed(uint64_t seed) {
  int pipe[2];
  MUSTER_CHECK(::pipe(pipe) == 0, "no pipe to the child");
  std::fflush(stdout);
  SimController::DiskWithTables();  // for all children
  const pid_t child = ::fork();
  MUSTER_CHECK(child >= 0, "no process for a run");
  if (child == 0) {
    ::close(pipe[0]);
    BeChild(seed, pipe[1]);
  }
  ::close(pipe[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(pipe[0], buffer, sizeof(buffer))) > 0;) text.append(buffer, n);
  ::close(pipe[0]);
  int status = 0;
  ::waitpid(child, &status, 0);

  Outcome outcome{.seed = seed};
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('\t', kNumbers));
  if (status != 0 || parts.size() != kNumbers + 1) {
    outcome.failure = DescribeDeath(status);
    return outcome;
  }
  int64_t simulated_ms = 0;
  PreemptionCheck::Counts& stops = outcome.preemptions;
  const bool read =
      absl::SimpleAtoi(parts[0], &outcome.hash) && absl::SimpleAtoi(parts[1], &outcome.jobs) &&
      absl::SimpleAtoi(parts[2], &simulated_ms) && absl::SimpleAtoi(parts[3], &stops.preempted) &&
      absl::SimpleAtoi(parts[4], &stops.shrunk) && absl::SimpleAtoi(parts[5], &stops.grown) &&
      absl::SimpleAtoi(parts[6], &stops.came_back_larger) &&
      absl::SimpleAtoi(parts[7], &stops.most_in_vain) &&
      absl::SimpleAtoi(parts[8], &outcome.clones) &&
      absl::SimpleAtoi(parts[9], &outcome.names_moved) &&
      absl::SimpleAtoi(parts[10], &outcome.undead) &&
      absl::SimpleAtoi(parts[11], &outcome.held_back) &&
      absl::SimpleAtoi(parts[12], &outcome.records) &&
      absl::SimpleAtoi(parts[13], &outcome.records_lost) &&
      absl::SimpleAtoi(parts[14], &outcome.strays) &&
      absl::SimpleAtoi(parts[15], &outcome.children_left) &&
      absl::SimpleAtoi(parts[16], &outcome.archived);
  MUSTER_CHECK(read, "a run's own words cannot be read");
  outcome.simulated = absl::Milliseconds(simulated_ms);
  outcome.failure = parts[kNumbers];
  return outcome;
}

std::string TraceSeed(uint64_t seed) { return World(seed, /*print=*/true).Run().failure; }

}  // namespace muster::sim
