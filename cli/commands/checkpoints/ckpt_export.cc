// `muster ckpt export`: a checkpoint as one file for other programs. muster-trainer beside this
// program writes it; the controller is asked only where the checkpoint lies.
#include "cli/commands/checkpoints/ckpt_export.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/commands/checkpoints/checkpoint_ref.h"
#include "cli/commands/trainer/ask_trainer.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

struct ExportFlags {
  std::string checkpoint, out, format = "safetensors", shape, batches;
  bool no_ema = false, encoder = false, force = false, allow_commands = false;
};

// As the trainer takes it: the folder, and what its manifest must be.
absl::StatusOr<std::vector<std::string>> PlaceOf(const std::string& text, Session& session) {
  if (absl::StrContains(text, '/')) return std::vector<std::string>{text};
  MUSTER_ASSIGN_OR_RETURN(const v1::CheckpointInfo found, FindCheckpoint(text, session));
  const absl::StatusOr<bool> here = session.fs().Exists(found.path());
  if (!here.ok() || !*here) {
    return WithHint(absl::NotFoundError(absl::StrCat("checkpoint ", text, ": its folder ",
                                                     found.path(), " is not on this machine")),
                    "run this where the job's storage is mounted, or copy the folder here and give "
                    "its path");
  }
  session.Say(
      absl::StrCat("checkpoint ", found.id(), " of step ", found.step(), ": ", found.path()));
  return std::vector<std::string>{found.path(), "--sha256", found.manifest_sha256()};
}

absl::StatusOr<ExitCode> RunExport(const ExportFlags& flags, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> place, PlaceOf(flags.checkpoint, session));
  std::vector<std::string> arguments = {"export"};
  arguments.insert(arguments.end(), place.begin(), place.end());
  arguments.insert(arguments.end(), {"--out", flags.out, "--format", flags.format});
  if (!flags.shape.empty()) arguments.insert(arguments.end(), {"--shape", flags.shape});
  if (!flags.batches.empty()) arguments.insert(arguments.end(), {"--batches", flags.batches});
  if (flags.no_ema) arguments.push_back("--no-ema");
  if (flags.encoder) arguments.push_back("--encoder");
  if (flags.force) arguments.push_back("--force");
  if (flags.allow_commands) arguments.push_back("--allow-commands");
  return AskTrainer(std::move(arguments), "", session);
}

}  // namespace

void AddCkptExport(CLI::App& ckpt, Session& session, Verb& verb) {
  CLI::App* command = ckpt.add_subcommand("export", "write one as a file for other programs");
  const auto flags = std::make_shared<ExportFlags>();
  command
      ->add_option("CKPT", flags->checkpoint,
                   absl::StrCat(kCheckpointRefHelp, ", or its folder here, with a slash"))
      ->required();
  command->add_option("--out", flags->out, "the file to write")->required();
  command
      ->add_option(
          "--format", flags->format,
          "safetensors: the weights alone; torchscript: the network, for torch.jit.load; int8: "
          "safetensors with rounded weights")
      ->check(CLI::IsMember({"safetensors", "torchscript", "int8"}));
  command->add_flag("--no-ema", flags->no_ema,
                    "the weights as trained, where the job also kept their average");
  command->add_flag("--encoder", flags->encoder,
                    "of a masked autoencoder: its encoder, in a Vision Transformer's names");
  command->add_flag("--force", flags->force, "overwrite what is there");
  command->add_option("--shape", flags->shape,
                      "of one sample, such as 3,224,224, where the job's data is not here");
  command->add_option("--batches", flags->batches,
                      "int8: how many batches of validation samples to calibrate on, 16");
  command->add_flag("--allow-commands", flags->allow_commands,
                    "load the job's plug-in: it is code, and runs here");
  command->callback([flags, &session, &verb] {
    verb = [flags, &session] { return RunExport(*flags, session); };
  });
}

}  // namespace muster::cli
