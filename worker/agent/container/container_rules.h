// How a command's rank is run in a container: the words for podman or apptainer, and what their
// answers mean. docs/COMMANDS.md promises what a program finds inside. Used by containers.h. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/agent/base/rank_key.h"

namespace muster::worker {

// Where a folder that was uploaded is inside, and our first process.
inline constexpr char kContainerWork[] = "/muster/work";
inline constexpr char kContainerInit[] = "/muster/init";
// Then a number: a variable in hexadecimal, NAME=value, that muster-init sets in its place.
inline constexpr char kPackedVariable[] = "MUSTER_PACKED_";

enum class ContainerRuntime { kPodman, kApptainer };

// What a worker has: paths of the programs, empty where there is none.
struct ContainerRuntimes {
  std::string podman;
  std::string apptainer;

  // As in Hello.
  std::vector<std::string> Names() const;
  bool Runs(const std::string& image) const;
  // Requires Runs(image).
  ContainerRuntime For(const std::string& image) const;
  const std::string& PathOf(ContainerRuntime runtime) const;
};

struct ContainerMount {
  std::string from;
  std::string to;
  bool read_only = false;
};

struct ContainerRun {
  std::string name;                      // podman's, from ContainerName
  std::string image;                     // as the spec has it; for apptainer: a file
  std::string workdir;                   // inside; empty: the image's own
  std::vector<std::string> argv;         // of the program
  std::vector<std::string> environment;  // NAME=value, of the program
  std::vector<ContainerMount> mounts;
  std::vector<uint32_t> gpus;  // their indexes on this machine
  std::vector<int> cpus;       // empty, and 0: no limit by the runtime
  uint64_t memory_bytes = 0;
  std::vector<std::string> options;  // the site's
  std::string env_file;              // where ContainerCommand::env_file will be; podman's
  std::string init;                  // path of muster-init; podman's
};

struct ContainerCommand {
  std::vector<std::string> argv;  // without the runtime's own path
  // NAME=value, for the runtime beside its own; nothing but names that it hands on.
  std::vector<std::string> environment;
  std::string env_file;  // text of that file: values do not stand in any argv
};

// INVALID_ARGUMENT: a path that cannot be mounted.
absl::StatusOr<ContainerCommand> MakeContainerCommand(ContainerRuntime runtime,
                                                      const ContainerRun& run);

// "muster-42-1-0-<agent>": job, attempt, rank; `agent` is what no other agent of this machine is
// called, and is cut to its end.
std::string ContainerName(const RankKey& key, absl::string_view agent);

// The words, from the runtime's name on, that run a program in podman's container of this name;
// the program's own follow. `terminal`: the runtime's streams are one.
std::vector<std::string> ExecWords(const std::string& podman, const std::string& name,
                                   bool terminal);

// What brings an image to this worker, given where apptainer puts it.
std::vector<std::string> PullArgv(ContainerRuntime runtime, const std::string& image,
                                  const std::string& file);

// The runtime's own last line about what went wrong, without its prefix ("Error: "); its last line
// of any kind where none has one; empty: it said nothing.
std::string ErrorMessageOf(ContainerRuntime runtime, absl::string_view errors);

// Whether an exit code is the runtime's own, for a program that may never have run: with the
// prefix of ErrorMessageOf before its last line.
bool IsRuntimeFailure(ContainerRuntime runtime, int exit_code, absl::string_view errors);

}  // namespace muster::worker
