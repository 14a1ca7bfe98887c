// `muster check`: a recipe before its real run, on this machine. muster-trainer beside this program
// answers; no controller is asked.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/commands/trainer/ask_trainer.h"
#include "cli/commands/trainer/model.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

struct CheckFlags {
  std::string file;
  std::vector<std::string> sets;
  bool rates = false;
  uint64_t batch_bytes = 0;
};

absl::StatusOr<ExitCode> RunCheck(const CheckFlags& flags, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const std::string spec, ResolvedSpec(flags.file, flags.sets, session));
  std::vector<std::string> arguments = {"check"};
  if (flags.rates) arguments = {"lr-range"};
  if (flags.batch_bytes > 0)
    arguments = {"find-batch", "--limit-bytes", absl::StrCat(flags.batch_bytes)};
  arguments.insert(arguments.end(), {"--spec", "-"});
  return AskTrainer(std::move(arguments), spec, session);
}

}  // namespace

void AddCheck(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* check = app.add_subcommand(
      "check", "a recipe before its run: counts, speed, and whether it learns one batch");
  const auto flags = std::make_shared<CheckFlags>();
  check->add_option("-f,--file", flags->file, "the job file; `-` reads standard input")->required();
  check->add_option("--set", flags->sets, "path=value over the file's");
  auto* rates = check->add_flag("--rates", flags->rates,
                                "instead: try learning rates from 1e-7 to 10 and suggest one");
  check
      ->add_option("--batch-within", flags->batch_bytes,
                   "instead: the largest batch of a rank within so much memory, such as 8GiB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->excludes(rates);
  check->callback(
      [&session, &verb, flags] { verb = [&session, flags] { return RunCheck(*flags, session); }; });
}

}  // namespace muster::cli
