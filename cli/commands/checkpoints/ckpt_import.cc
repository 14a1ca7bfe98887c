#include "cli/commands/checkpoints/ckpt_import.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/commands/foreground.h"
#include "cli/session/host.h"

namespace muster::cli {
namespace {

struct ImportFlags {
  std::string path;
  std::optional<int64_t> step;
  ProgramJob job{.name = "import"};
};

// As a job, in the folder in which PATH lies: its worker rereads the checkpoint, and its agent
// publishes it.
absl::StatusOr<ExitCode> ImportCheckpoint(ImportFlags flags, Session& session) {
  if (flags.path.empty() || flags.path.front() != '/') {
    flags.path = absl::StrCat(WorkingDirectory(), "/", flags.path);
  }
  while (flags.path.size() > 1 && flags.path.back() == '/') flags.path.pop_back();
  flags.job.workdir = flags.path.substr(0, std::max<size_t>(flags.path.rfind('/'), 1));
  flags.job.program = {"muster-worker", "import-checkpoint", flags.path};
  if (flags.step.has_value()) flags.job.program.push_back(absl::StrCat("--step=", *flags.step));
  return RunProgramJob(std::move(flags.job), session);
}

}  // namespace

void AddCkptImport(CLI::App& ckpt, Session& session, Verb& verb) {
  CLI::App* command = ckpt.add_subcommand("import",
                                          "copy a checkpoint of another cluster, or files of "
                                          "another program, into this cluster, by a job that "
                                          "verifies it; the copy belongs to that job");
  const auto flags = std::make_shared<ImportFlags>();
  command
      ->add_option(
          "PATH", flags->path,
          "a checkpoint's folder, another folder of files, or a file, which the worker sees "
          "under this path, too")
      ->required();
  command->add_option("--step", flags->step, "its step (what its manifest says)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--name", flags->job.name, "of the job (import)");
  command->add_option("--project", flags->job.project, "of the job");
  command->add_option("--pool", flags->job.pool, "workers that see PATH");
  command->add_flag("-d,--detach", flags->job.detach, "do not stay: print the job and leave it");
  command->callback([flags, &session, &verb] {
    verb = [flags, &session] { return ImportCheckpoint(*flags, session); };
  });
}

}  // namespace muster::cli
