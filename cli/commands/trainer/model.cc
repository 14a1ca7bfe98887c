// `muster model ls / show`: networks, without training them. muster-trainer beside this program
// answers; no controller is asked.
#include "cli/commands/trainer/model.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/trainer/ask_trainer.h"
#include "cli/session/error.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

struct ModelFlags {
  std::string name;
  std::string file;
  std::vector<std::string> sets;
  bool allow_commands = false;
};

absl::StatusOr<ExitCode> ShowModel(const ModelFlags& flags, Session& session) {
  if (flags.name.empty() == flags.file.empty()) {
    return WithHint(absl::InvalidArgumentError("a model is either a name or a job file"),
                    "`muster model ls` shows the names; `muster model show -f job.yaml` shows the "
                    "model of a job");
  }
  if (flags.file.empty()) return AskTrainer({"model", "show", flags.name}, "", session);
  MUSTER_ASSIGN_OR_RETURN(const std::string spec, ResolvedSpec(flags.file, flags.sets, session));
  std::vector<std::string> arguments = {"model", "show", "--spec", "-"};
  if (flags.allow_commands) arguments.push_back("--allow-commands");
  return AskTrainer(std::move(arguments), spec, session);
}

}  // namespace

void AddModel(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* model = app.add_subcommand("model", "networks: which there are, and what they take");
  model->require_subcommand(1);
  CLI::App* ls = model->add_subcommand("ls", "the networks that have a name");
  ls->callback([&session, &verb] {
    verb = [&session] { return AskTrainer({"model", "ls"}, "", session); };
  });
  CLI::App* show = model->add_subcommand("show", "its tensors, and the memory that training takes");
  const auto flags = std::make_shared<ModelFlags>();
  show->add_option("NAME", flags->name, "a name that `muster model ls` shows");
  show->add_option("-f,--file", flags->file, "the model of this job; `-` reads standard input");
  show->add_option("--set", flags->sets, "path=value over the file's");
  show->add_flag("--allow-commands", flags->allow_commands,
                 "load the job's plug-in: it is code, and runs here");
  show->callback([flags, &session, &verb] {
    verb = [flags, &session] { return ShowModel(*flags, session); };
  });
}

}  // namespace muster::cli
