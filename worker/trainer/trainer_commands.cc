#include "worker/trainer/trainer_commands.h"

#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/fs/file_system.h"
#include "trainer_spec/job_spec.h"
#include "worker/trainer/rank/rank_program.h"
#include "worker/trainer/tools/export.h"
#include "worker/trainer/tools/forward.h"
#include "worker/trainer/tools/largest_batch.h"
#include "worker/trainer/tools/model_command.h"
#include "worker/trainer/tools/recipe_check.h"

namespace muster::worker {
namespace {

constexpr int kRefused = 2;

// `muster` passes specs through a pipe.
absl::StatusOr<std::string> ReadSpecText(const std::string& name) {
  std::ifstream stream(name == "-" ? "/dev/stdin" : name);
  std::stringstream text;
  text << stream.rdbuf();
  if (!stream) return absl::NotFoundError(absl::StrCat(name, " cannot be read"));
  return text.str();
}

// The spec as the checks want it; torch is configured as for a run of it.
absl::StatusOr<trainer_spec::JobSpec> ReadSpec(const std::string& name) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadSpecText(name));
  MUSTER_ASSIGN_OR_RETURN(trainer_spec::JobSpec spec, trainer_spec::DecodeJobSpec(text));
  ConfigureTorch(spec);
  return spec;
}

}  // namespace

struct Commands::State {
  CLI::App *forward, *model_ls, *model_show, *check, *rates, *batch, *export_file;
  ForwardRequest request;
  ExportRequest to_export;
  std::string name, spec_file, output = "table";
  bool allow_plugins = false, plain_weights = false, strict = false;
  int64_t limit_bytes = 0;

  bool json() const { return output == "json"; }
  ModelFormat format() const { return json() ? ModelFormat::kJson : ModelFormat::kTable; }

  absl::StatusOr<std::string> ShowModels() const {
    if (model_ls->parsed()) return ListModels(format());
    if (spec_file.empty()) return ShowModel(name, format());
    MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadSpecText(spec_file));
    return ShowModelOfSpec(text, allow_plugins, PosixFileSystem(), format());
  }

  absl::StatusOr<std::string> Check() const {
    MUSTER_ASSIGN_OR_RETURN(const trainer_spec::JobSpec spec, ReadSpec(spec_file));
    MUSTER_ASSIGN_OR_RETURN(const CheckReport report, CheckRecipe(spec, PosixFileSystem()));
    if (strict && !report.warnings.empty())
      return absl::FailedPreconditionError("the check did not pass:\n" + CheckText(report));
    return json() ? CheckJson(report) : CheckText(report);
  }

  absl::StatusOr<std::string> Rates() const {
    MUSTER_ASSIGN_OR_RETURN(const trainer_spec::JobSpec spec, ReadSpec(spec_file));
    MUSTER_ASSIGN_OR_RETURN(const RateRange range, SweepLearningRates(spec, PosixFileSystem()));
    return json() ? RatesJson(range) : RatesText(range);
  }

  absl::StatusOr<std::string> Batch() const {
    MUSTER_ASSIGN_OR_RETURN(const trainer_spec::JobSpec spec, ReadSpec(spec_file));
    MUSTER_ASSIGN_OR_RETURN(const LargestBatch largest,
                            FindLargestBatch(spec, PosixFileSystem(), limit_bytes));
    return json() ? BatchJson(largest) : BatchText(largest);
  }

  absl::StatusOr<std::string> ExportFile() const {
    ExportRequest asked = to_export;
    asked.averaged = !plain_weights;
    MUSTER_ASSIGN_OR_RETURN(const ExportResult result, Export(PosixFileSystem(), asked));
    return json() ? ExportJson(result) : ExportText(result);
  }
};

Commands::Commands(CLI::App& app) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.forward = app.add_subcommand(
      "forward", "Run a model once on given inputs, on the CPU, and write what it gives");
  s.forward->add_option("--spec", s.request.spec, "The resolved spec (JSON) that names the model")
      ->required();
  s.forward->add_option("--weights", s.request.weights,
                        "The model's weights (safetensors); default: the initial ones of the seed");
  s.forward->add_option("--inputs", s.request.inputs, "A tensor `inputs` of samples (safetensors)")
      ->required();
  s.forward->add_option("--classes", s.request.classes, "How many classes the model tells apart")
      ->default_val(1000)
      ->check(CLI::Range(1, 1 << 24));
  s.forward
      ->add_option("--out", s.request.out, "Write `values`, and `mask` where there is one, here")
      ->required();

  CLI::App* models = app.add_subcommand("model", "Look at networks without training them");
  models->require_subcommand(1);
  s.model_ls = models->add_subcommand("ls", "The networks that have a name");
  s.model_show = models->add_subcommand("show", "A network's tensors and the memory it takes");
  auto* name = s.model_show->add_option("NAME", s.name, "A name that `model ls` shows");
  auto* spec = s.model_show->add_option(
      "--spec", s.spec_file, "Instead of a name: a resolved spec (JSON); - for standard input");
  name->excludes(spec);
  s.model_show->add_flag("--allow-commands", s.allow_plugins,
                         "Load the spec's plug-in or TorchScript file, which is code");

  s.check = app.add_subcommand("check",
                               "Look at a recipe before its real run: counts, speed, and "
                               "whether it can learn one batch");
  s.rates = app.add_subcommand("lr-range", "Try learning rates from 1e-7 to 10 and suggest one");
  s.batch = app.add_subcommand("find-batch", "The largest batch of a rank that fits into memory");
  for (CLI::App* command : {s.check, s.rates, s.batch}) {
    command->add_option("--spec", s.spec_file, "The resolved spec (JSON); - for standard input")
        ->required();
  }
  s.check->add_flag("--strict", s.strict, "Fail when there is a warning");
  s.batch->add_option("--limit-bytes", s.limit_bytes, "How much one rank may take")
      ->required()
      ->check(CLI::PositiveNumber);
  AddExport(app);
  for (CLI::App* command : {s.model_ls, s.model_show, s.check, s.rates, s.batch, s.export_file}) {
    command->add_option("-o,--output", s.output, "table or json")
        ->check(CLI::IsMember({"table", "json"}));
  }
}

void Commands::AddExport(CLI::App& app) {
  State& s = *state_;
  s.export_file =
      app.add_subcommand("export", "Write a checkpoint's network as one file for other programs");
  s.export_file->add_option("CHECKPOINT", s.to_export.checkpoint, "The checkpoint's folder")
      ->required();
  s.export_file->add_option("--out", s.to_export.out, "The file to write")->required();
  s.export_file
      ->add_option("--format", s.to_export.format,
                   "safetensors, torchscript, or int8: safetensors with rounded weights")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, ExportFormat>{{"safetensors", ExportFormat::kSafetensors},
                                              {"torchscript", ExportFormat::kTorchScript},
                                              {"int8", ExportFormat::kInt8}}));
  s.export_file
      ->add_option("--batches", s.to_export.calibration_batches,
                   "int8: how many batches of validation samples to calibrate on")
      ->check(CLI::PositiveNumber);
  s.export_file->add_option("--sha256", s.to_export.manifest_sha256,
                            "What the checkpoint's manifest must have as its SHA-256");
  s.export_file->add_flag("--no-ema", s.plain_weights,
                          "The weights as trained, where the run also kept their average");
  s.export_file->add_flag("--encoder", s.to_export.encoder,
                          "Of a masked autoencoder: its encoder, in a Vision Transformer's names");
  s.export_file->add_flag("--force", s.to_export.overwrite, "Overwrite what is there");
  s.export_file
      ->add_option("--shape", s.to_export.shape,
                   "Of one sample, such as 3,224,224, where the run's data is not here")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  s.export_file->add_flag("--allow-commands", s.to_export.allow_plugins,
                          "Load the run's plug-in, which is code");
}

Commands::~Commands() = default;

std::optional<int> Commands::Run() {
  const State& s = *state_;
  absl::StatusOr<std::string> text = absl::InternalError("nothing was asked for");
  if (s.forward->parsed()) {
    const absl::Status status = Forward(PosixFileSystem(), s.request);
    text = status.ok() ? absl::StatusOr<std::string>("") : status;
  } else if (s.model_ls->parsed() || s.model_show->parsed()) {
    text = s.ShowModels();
  } else if (s.check->parsed()) {
    text = s.Check();
  } else if (s.rates->parsed()) {
    text = s.Rates();
  } else if (s.batch->parsed()) {
    text = s.Batch();
  } else if (s.export_file->parsed()) {
    text = s.ExportFile();
  } else {
    return std::nullopt;
  }
  if (!text.ok()) {
    std::cerr << "muster-trainer: " << text.status().message() << "\n";
    return kRefused;
  }
  std::cout << *text;
  return 0;
}

}  // namespace muster::worker
