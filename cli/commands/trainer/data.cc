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
  std::string file;  // of `show`: the job
  std::vector<std::string> sets;
};

absl::StatusOr<ExitCode> RunData(std::vector<std::string> arguments,
                                 const std::optional<std::string>& input, Session& session) {
  if (IsJson(session.globals().format)) arguments.push_back("--json");
  session.host().out << std::flush;
  MUSTER_ASSIGN_OR_RETURN(const int code, RunDataTool(arguments, input, session.host()));
  return static_cast<ExitCode>(code);
}

absl::StatusOr<ExitCode> RunDataShow(const DataFlags& flags, std::vector<std::string> rest,
                                     Session& session) {
  rest.insert(rest.begin(), "show");
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
  CLI::App* show = data->add_subcommand("show", "")->group("");
  show->fallthrough(false);
  show->set_help_flag();
  show->allow_extras();
  show->add_option("-f,--file", flags->file, "the job file; `-` reads standard input");
  show->add_option("--set", flags->sets, "path=value over the file's")->allow_extra_args(false);
  data->callback([&session, &verb, data, show, flags] {
    if (show->parsed()) {
      verb = [&session, flags, rest = show->remaining()] {
        return RunDataShow(*flags, rest, session);
      };
      return;
    }
    verb = [&session, rest = data->remaining()] { return RunData(rest, std::nullopt, session); };
  });
}

}  // namespace muster::cli
