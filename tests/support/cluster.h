// A real Muster on loopback for one test: `muster local up` in a folder of its own, driven through
// the CLI as a person would. The destructor takes it down; after a failed test it prints the ends
// of the daemons' logs first.
//
// One thread. Figures are read from `-o json`, whose keys are the fields of proto/muster/v1.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"

namespace muster::testing {

using Json = nlohmann::json;

// The member as a number or a text; 0 and "" when it is missing, null or of another type.
double Number(const Json& object, const std::string& key);
std::string Text(const Json& object, const std::string& key);
// The member as a list or an object; an empty one when it is missing.
const Json& Member(const Json& object, const std::string& key);

std::string BinDir();
std::string SourceDir();

class Cluster {
 public:
  // Makes the folders; starts nothing.
  Cluster();
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // `muster local up --workers N` with further arguments; a test failure when it does not come up.
  void Up(int workers, const std::vector<std::string>& more = {});
  // `muster local down`; a failure when any process of this cluster is left.
  void Down();

  // Runs `muster ARGS`, at most `timeout`.
  ProcessResult Cli(const std::vector<std::string>& args,
                    absl::Duration timeout = absl::Minutes(1));
  // Runs `muster ARGS -o json`; a failure and null when it does not exit with 0 and one JSON value.
  Json CliJson(std::vector<std::string> args);

  // Writes `yaml` to a file and submits it; the job's id, or 0 after a failure.
  uint64_t Submit(const std::string& yaml, const std::vector<std::string>& more = {});
  // `muster show`: summary, spec, attempts, checkpoints, events.
  Json Show(uint64_t job);
  std::string State(uint64_t job);
  int64_t Step(uint64_t job);
  // Waits until the job stands at `step` or further while it runs; a failure when it does not.
  void WaitForStep(uint64_t job, int64_t step, absl::Duration timeout = absl::Minutes(2));
  // Waits for a terminal state and gives it; a failure and the last state when none comes.
  std::string WaitForEnd(uint64_t job, absl::Duration timeout = absl::Minutes(8));

  // A daemon of `muster local status` by name: musterd, worker-1, ...; an empty object when it is
  // not there.
  Json Daemon(const std::string& name);
  ProcessId DaemonProcess(const std::string& name);
  ProcessId Supervisor();
  // The processes of the job's newest attempt, by rank.
  std::vector<ProcessId> RankProcesses(uint64_t job);

  // Every living process of this cluster.
  std::vector<std::string> Processes() const { return ProcessesMentioning(dir_.path()); }

  // A path in the cluster's folder. local/ holds controller/, worker-N/, logs/.
  std::string Path(const std::string& name) const { return dir_ / name; }
  const Environment& environment() const { return environment_; }

 private:
  void PrintLogs() const;
  // As Show, but an empty object while the controller is away: a test may just have killed it.
  Json ShowIfReachable(uint64_t job);

  TempDir dir_;
  Environment environment_;
  bool up_ = false;
};

}  // namespace muster::testing
