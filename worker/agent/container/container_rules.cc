#include "worker/agent/container/container_rules.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/spec/validate/image_reference.h"

namespace muster::worker {
namespace {

constexpr size_t kAgentInName = 16;
// podman's own exit codes: its failure, a program that cannot be run, one that is not there.
constexpr int kPodmanFailed = 125;
constexpr int kPodmanNotFound = 127;
constexpr int kApptainerFailed = 255;

absl::string_view ErrorPrefix(ContainerRuntime runtime) {
  return runtime == ContainerRuntime::kPodman ? "Error: " : "FATAL: ";
}

absl::StatusOr<std::string> MountText(const ContainerMount& mount) {
  for (const std::string* path : {&mount.from, &mount.to}) {
    if (path->find_first_of(":,") != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot mount `", *path, "` in a container: it has a ':' or ','"));
    }
  }
  return absl::StrCat(mount.from, ":", mount.to, mount.read_only ? ":ro" : "");
}

absl::StatusOr<ContainerCommand> PodmanCommand(const ContainerRun& run) {
  ContainerCommand command;
  size_t packed_count = 0;
  // Its own log would be a second copy of the output, without bound. The machine's network and
  // shared memory, as ranks without a container have them: NCCL and data loaders need both.
  command.argv = {"run",
                  "--name=" + run.name,
                  "--pull=never",
                  "--network=host",
                  "--ipc=host",
                  "--log-driver=none",
                  "--preserve-fds=1",
                  "--env-file=" + run.env_file,
                  absl::StrCat("--volume=", run.init, ":", kContainerInit, ":ro"),
                  absl::StrCat("--entrypoint=", kContainerInit)};
  for (const std::string& variable : run.environment) {
    // The file has a line for each. What is more than a line muster-init unpacks inside: nothing of
    // a job's stands in podman's own environment, where it would mean something to podman.
    const bool is_line = std::none_of(variable.begin(), variable.end(), absl::ascii_iscntrl);
    const std::string packed = is_line ? variable
                                       : absl::StrCat(kPackedVariable, packed_count++, "=",
                                                      absl::BytesToHexString(variable));
    absl::StrAppend(&command.env_file, packed, "\n");
  }
  for (const ContainerMount& mount : run.mounts) {
    MUSTER_ASSIGN_OR_RETURN(const std::string text, MountText(mount));
    command.argv.push_back("--volume=" + text);
  }
  for (const uint32_t gpu : run.gpus) {
    command.argv.push_back(absl::StrCat("--device=nvidia.com/gpu=", gpu));
  }
  if (!run.cpus.empty()) {
    command.argv.push_back(absl::StrCat("--cpuset-cpus=", absl::StrJoin(run.cpus, ",")));
  }
  if (run.memory_bytes != 0) {
    // Without swap beyond it.
    command.argv.push_back(absl::StrCat("--memory=", run.memory_bytes, "b"));
    command.argv.push_back(absl::StrCat("--memory-swap=", run.memory_bytes, "b"));
  }
  if (!run.workdir.empty()) command.argv.push_back("--workdir=" + run.workdir);
  command.argv.insert(command.argv.end(), run.options.begin(), run.options.end());
  command.argv.push_back(run.image);
  command.argv.insert(command.argv.end(), run.argv.begin(), run.argv.end());
  return command;
}

absl::StatusOr<ContainerCommand> ApptainerCommand(const ContainerRun& run) {
  ContainerCommand command;
  command.argv = {"exec", "--cleanenv", "--no-home"};
  for (const std::string& variable : run.environment) {
    command.environment.push_back("APPTAINERENV_" + variable);
  }
  for (const ContainerMount& mount : run.mounts) {
    MUSTER_ASSIGN_OR_RETURN(const std::string text, MountText(mount));
    command.argv.push_back("--bind=" + text);
  }
  if (!run.gpus.empty()) command.argv.push_back("--nv");
  // It would take the agent's own folder where that exists inside.
  command.argv.push_back("--pwd=" + (run.workdir.empty() ? "/" : run.workdir));
  command.argv.insert(command.argv.end(), run.options.begin(), run.options.end());
  command.argv.push_back(run.image);
  command.argv.insert(command.argv.end(), run.argv.begin(), run.argv.end());
  return command;
}

std::vector<absl::string_view> Lines(absl::string_view text) {
  return absl::StrSplit(text, '\n', absl::SkipWhitespace());
}

}  // namespace

std::vector<std::string> ContainerRuntimes::Names() const {
  std::vector<std::string> names;
  if (!podman.empty()) names.push_back("podman");
  if (!apptainer.empty()) names.push_back("apptainer");
  return names;
}

bool ContainerRuntimes::Runs(const std::string& image) const {
  return !apptainer.empty() || (!podman.empty() && !IsImageFile(image));
}

ContainerRuntime ContainerRuntimes::For(const std::string& image) const {
  const bool by_podman = !podman.empty() && !IsImageFile(image);
  return by_podman ? ContainerRuntime::kPodman : ContainerRuntime::kApptainer;
}

const std::string& ContainerRuntimes::PathOf(ContainerRuntime runtime) const {
  return runtime == ContainerRuntime::kPodman ? podman : apptainer;
}

absl::StatusOr<ContainerCommand> MakeContainerCommand(ContainerRuntime runtime,
                                                      const ContainerRun& run) {
  return runtime == ContainerRuntime::kPodman ? PodmanCommand(run) : ApptainerCommand(run);
}

std::string ContainerName(const RankKey& key, absl::string_view agent) {
  const size_t cut = agent.size() > kAgentInName ? agent.size() - kAgentInName : 0;
  return absl::StrCat("muster-", key.job_id, "-", key.attempt, "-", key.rank, "-",
                      agent.substr(cut));
}

std::vector<std::string> ExecWords(const std::string& podman, const std::string& name,
                                   bool terminal) {
  std::vector<std::string> words = {podman, "exec", "--interactive"};
  if (terminal) words.push_back("--tty");
  words.push_back(name);
  return words;
}

std::vector<std::string> PullArgv(ContainerRuntime runtime, const std::string& image,
                                  const std::string& file) {
  if (runtime == ContainerRuntime::kPodman) return {"pull", "--quiet", image};
  return {"pull", "--force", file, "docker://" + image};
}

std::string ErrorMessageOf(ContainerRuntime runtime, absl::string_view errors) {
  const std::vector<absl::string_view> lines = Lines(errors);
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    absl::string_view said = *line;
    if (absl::ConsumePrefix(&said, ErrorPrefix(runtime))) {
      return std::string(absl::StripLeadingAsciiWhitespace(said));
    }
  }
  return lines.empty() ? "" : std::string(lines.back());
}

bool IsRuntimeFailure(ContainerRuntime runtime, int exit_code, absl::string_view errors) {
  const std::vector<absl::string_view> lines = Lines(errors);
  const bool own_code = runtime == ContainerRuntime::kPodman
                            ? exit_code >= kPodmanFailed && exit_code <= kPodmanNotFound
                            : exit_code == kApptainerFailed;
  return own_code && !lines.empty() && absl::StartsWith(lines.back(), ErrorPrefix(runtime));
}

}  // namespace muster::worker
