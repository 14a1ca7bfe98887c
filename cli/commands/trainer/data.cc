// `muster data`: data sets, without training on them. muster-data beside this program does it, on
// the terminal that this one has; no controller is asked.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/trainer/ask_trainer.h"
#include "cli/commands/trainer/model.h"
#include "cli/commands/trainer/sibling_program.h"
#include "cli/output/document.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

struct DataFlags {
  std::string file;  // of `show` and `preflight`: the job
  std::vector<std::string> sets;
};

absl::StatusOr<ExitCode> RunData(std::vector<std::string> arguments,
                                 const std::optional<std::string>& input, Session& session) {
  if (IsJson(session.globals().format)) arguments.push_back("--json");
  session.host().out << std::flush;
  MUSTER_ASSIGN_OR_RETURN(const int code, RunDataTool(arguments, input, session.host()));
  return static_cast<ExitCode>(code);
}

// `show` and `preflight` want the job resolved.
absl::StatusOr<ExitCode> RunOfJob(const char* command, const DataFlags& flags,
                                  std::vector<std::string> rest, Session& session) {
  rest.insert(rest.begin(), command);
  if (flags.file.empty()) return RunData(std::move(rest), std::nullopt, session);
  MUSTER_ASSIGN_OR_RETURN(const std::string spec, ResolvedSpec(flags.file, flags.sets, session));
  rest.insert(rest.end(), {"--job", "-"});
  return RunData(std::move(rest), spec, session);
}

constexpr char kDataFooter[] =
    "index    find the samples, and write down where they lie\n"
    "verify   read and decode every sample, and list what is broken\n"
    "stats    classes, sizes, kinds, and the mean and std of each channel\n"
    "show     where a sample lies and what it is; with -f job.yaml --step N --sample K what a "
    "step\n"
    "         of that job makes of it\n"
    "cat      write a sample's bytes to standard output\n"
    "pack     write shards that are quick to read, of data in any format\n"
    "split    hold out a share of each class of an image folder, as a tree of links\n"
    "preflight  whether the job of -f job.yaml will find its data on this machine, as JSON\n"
    "bench    samples a second that this machine can feed, stage by stage\n"
    "\n"
    "`muster data COMMAND --help` shows what each takes.";

}  // namespace

void AddData(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* data = app.add_subcommand("data", "data sets: look at them, check them, pack them");
  data->fallthrough(false);
  data->prefix_command();
  data->footer(kDataFooter);
  const auto flags = std::make_shared<DataFlags>();
  std::vector<std::pair<const char*, CLI::App*>> of_jobs;
  for (const char* name : {"show", "preflight"}) {
    CLI::App* command = data->add_subcommand(name, "")->group("");
    command->fallthrough(false);
    command->set_help_flag();
    command->allow_extras();
    command->add_option("-f,--file", flags->file, "the job file; `-` reads standard input");
    command->add_option("--set", flags->sets, "path=value over the file's")
        ->allow_extra_args(false);
    of_jobs.emplace_back(name, command);
  }
  data->callback([&session, &verb, data, of_jobs, flags] {
    for (const auto& [name, command] : of_jobs) {
      if (!command->parsed()) continue;
      verb = [&session, flags, name = name, rest = command->remaining()] {
        return RunOfJob(name, *flags, rest, session);
      };
      return;
    }
    verb = [&session, rest = data->remaining()] { return RunData(rest, std::nullopt, session); };
  });
}

}  // namespace muster::cli
