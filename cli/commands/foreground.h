// The verbs that stay in the foreground and are nothing without it: `run` and `top`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/commands/commands.h"

namespace muster::cli {

// A program of Muster's own, as a job that a verb submits and stays with.
struct ProgramJob {
  std::vector<std::string> program;
  std::string name;
  std::string workdir;
  std::optional<std::string> project, pool;
  bool detach = false;
};
// As `run` does with what stands behind `--`.
absl::StatusOr<ExitCode> RunProgramJob(ProgramJob job, Session& session);

void AddRun(CLI::App& app, Session& session, Verb& verb);
void AddTop(CLI::App& app, Session& session, Verb& verb);

}  // namespace muster::cli
