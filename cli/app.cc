#include "cli/app.h"

#include <algorithm>
#include <memory>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "cli/commands/access/access_verbs.h"
#include "cli/commands/cluster/completion.h"
#include "cli/commands/cluster/join_token_verb.h"
#include "cli/commands/commands.h"
#include "cli/commands/foreground.h"
#include "cli/commands/trainer/model.h"
#include "cli/grammar/man_page.h"
#include "cli/grammar/verb_hints.h"
#include "cli/session/cli_session.h"
#include "cli/session/error.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/base/utf8.h"
#include "common/base/version.h"

namespace muster::cli {
namespace {

constexpr char kFooter[] =
    "A JOB is an id or a name (then the newest of that name). Results go to stdout, progress to "
    "stderr.\n"
    "\n"
    "Exit codes:\n"
    "    0 done; the job succeeded      7 refused: can never fit, or a limit is reached\n"
    "    1 internal error               8 timed out while the job goes on\n"
    "    2 usage, or a bad job file    10 the job failed\n"
    "    3 not found                   11 the job was cancelled\n"
    "    4 not allowed                 12 the job failed: restart budget used up\n"
    "    5 controller unreachable      13 the job failed: no progress\n"
    "    6 wrong state for this verb  130 interrupted; a job that was watched goes on\n"
    "\n"
    "Example:\n"
    "  muster local up --workers 2\n"
    "  muster submit -f job.yaml --set train.optimizer.lr=0.01 --watch";

// Flags as text; CLI11 reports what is wrong with a value by the message that a check returns.
struct GlobalText {
  std::string format = "table";
  std::string timeout;
  bool no_header = false;
  bool quiet = false;
};

std::string CheckDuration(const std::string& text) {
  const auto duration = ParseDuration(text);
  if (!duration.ok()) return std::string(duration.status().message());
  return *duration > absl::ZeroDuration() ? "" : "must be longer than 0s";
}

std::string CheckFormat(const std::string& text) {
  const auto format = ParseFormat(text);
  return format.ok() ? "" : std::string(format.status().message());
}

// In the order of --help.
constexpr void (*kAddVerbs[])(CLI::App& app, Session& session, Verb& verb) = {
    AddSubmit,  AddRun,     AddLs,      AddShow,    AddWatch,      AddLogs,
    AddMetrics, AddWait,    AddCancel,  AddControl, AddUpdate,     AddNodes,
    AddTop,     AddProject, AddHistory, AddGoodput, AddCompare,    AddExplain,
    AddEvents,  AddExec,    AddCkpt,    AddLocal,   AddLogin,      AddConfig,
    AddWhoAmI,  AddUser,    AddToken,   AddAudit,   AddJoinToken,  AddModel,
    AddCheck,   AddData,    AddAdmin,   AddDebug,   AddCompletion, AddVersion};

void AddGlobals(CLI::App& app, GlobalText& text, ContextFlags& context) {
  app.add_option("--addr", context.address,
                 "the controller, HOST:PORT (MUSTER_ADDR; else the saved context)");
  app.add_option(
      "--context", context.context,
      "a cluster that you have logged in to, by its name (MUSTER_CONTEXT; `muster config` "
      "lists them)");
  app.add_option("--token-file", context.token_file,
                 "file with the token (MUSTER_TOKEN_FILE, or MUSTER_TOKEN itself)");
  app.add_option("--ca-file", context.ca_file,
                 "certificates of the CA that signed the controller's; with them the connection is "
                 "encrypted (MUSTER_CA_FILE)");
  app.add_flag("--insecure", context.insecure,
               "the token may go to another machine in plain text, without --ca-file "
               "(MUSTER_INSECURE=1)");
  app.add_option("--timeout", text.timeout,
                 "longest time for each call (10s); for wait, watch, submit --wait, logs -f and "
                 "events -f: in all")
      ->check(CheckDuration);
  app.add_option("-o,--output", text.format, "table, wide, json, jsonl, yaml, csv or name")
      ->check(CheckFormat);
  app.add_flag("--no-header", text.no_header, "tables without their first line");
  app.add_flag("-q,--quiet", text.quiet, "only ids or names, like -o name");
}

void Resolve(const GlobalText& text, Globals& globals) {
  // The checks have passed, so both parse.
  globals.format = text.quiet ? Format::kName : *ParseFormat(text.format);
  if (!text.timeout.empty()) globals.timeout = *ParseDuration(text.timeout);
  globals.header = !text.no_header;
}

// A usage error may come before -o is parsed, so it is looked for by eye.
bool WantsJson(const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    for (const char* json : {"json", "jsonl"}) {
      if (i + 1 < args.size() && (args[i] == "-o" || args[i] == "--output") && args[i + 1] == json)
        return true;
      if (args[i] == absl::StrCat("-o", json) || args[i] == absl::StrCat("--output=", json))
        return true;
    }
  }
  return false;
}

// Cuts off what stands behind `--` of a verb that takes a program: the parser must not touch it.
std::vector<std::string> TakeProgram(std::vector<std::string>& args) {
  if (!args.empty() && args[0] == "__complete") return {};  // it is to be seen
  const auto dashes = std::find(args.begin(), args.end(), "--");
  const bool takes_one = std::any_of(args.begin(), dashes, [](const std::string& arg) {
    return arg == "submit" || arg == "run" || arg == "exec";
  });
  if (dashes == args.end() || !takes_one) return {};
  std::vector<std::string> program(dashes + 1, args.end());
  args.erase(dashes, args.end());
  return program;
}

// What is sent is UTF-8. Bytes that are not would arrive as something else, or not at all.
absl::Status CheckUtf8(const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    if (IsUtf8(arg)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the argument '", RepairUtf8(arg), "' is not UTF-8"));
  }
  return absl::OkStatus();
}

// CLI11 reports faults by exceptions; none leaves this function. OK: the arguments are right, or
// `shown` is the help or the version that they ask for.
absl::Status Parse(CLI::App& app, const std::vector<std::string>& args, std::string& shown) {
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
    return absl::OkStatus();
  } catch (const CLI::ParseError& error) {
    std::ostringstream text;
    std::ostringstream fault;
    const int code = app.exit(error, text, fault);
    // Also where it is the help of a verb that there is not which is asked for.
    if (code == 0 && !HasUnknownVerb(app)) {
      shown = text.str();
      return absl::OkStatus();
    }
    return UsageError(app, args, error);
  }
}

// The whole command line: its flags and verbs, and what parsing makes of them.
struct CommandLine {
  explicit CommandLine(Session& session)
      : app("Muster trains models on machines that come and go. `muster local up` starts one here.",
            "muster") {
    app.set_version_flag("--version", VersionLine("muster"));
    app.require_subcommand(1);
    app.fallthrough();
    app.get_formatter()->column_width(28);
    app.footer(kFooter);
    AddGlobals(app, text, session.globals().context);
    for (const auto add : kAddVerbs) add(app, session, verb);
  }
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  CLI::App app;
  GlobalText text;
  Verb verb;
};

// What programs ask, and people do not: the shells' completion, and the build for manual pages.
constexpr char kCompleteVerb[] = "__complete";
constexpr char kManVerb[] = "__man";

// A page a file, into the folder.
absl::StatusOr<ExitCode> WriteManPages(const CLI::App& app, const std::string& folder,
                                       Session& session) {
  for (const ManPage& page : ManPages(app, Version())) {
    MUSTER_RETURN_IF_ERROR(
        WriteFileAtomically(session.fs(), absl::StrCat(folder, "/", page.file), page.text));
  }
  return ExitCode::kDone;
}

// Runs the verb, or shows what was asked for instead. `json`: whether an error is to be told so.
absl::StatusOr<ExitCode> Run(const std::vector<std::string>& args, Session& session, bool& json) {
  MUSTER_RETURN_IF_ERROR(CheckUtf8(args));
  MUSTER_RETURN_IF_ERROR(CheckUtf8(session.globals().program));
  CommandLine line(session);
  if (!args.empty() && args[0] == kCompleteVerb) {
    PrintCompletion(line.app, {args.begin() + 1, args.end()}, session);
    return ExitCode::kDone;
  }
  if (args.size() == 2 && args[0] == kManVerb) return WriteManPages(line.app, args[1], session);
  std::string shown;
  MUSTER_RETURN_IF_ERROR(Parse(line.app, args, shown));
  session.host().out << shown;
  if (!line.verb) return ExitCode::kDone;
  Resolve(line.text, session.globals());
  json = IsJson(session.globals().format);
  return line.verb();
}

}  // namespace

int RunMuster(const std::vector<std::string>& args, Host& host, FileSystem& fs) {
  Session session(host, fs);
  std::vector<std::string> own_args = args;
  session.globals().program = TakeProgram(own_args);
  bool json = WantsJson(own_args);
  absl::StatusOr<ExitCode> code = Run(own_args, session, json);
  if (!code.ok()) {
    host.out << std::flush;
    host.err << ErrorText(code.status(), json) << std::flush;
    code = ExitCodeOf(code.status());
  }
  host.out << std::flush;
  // Who reads it must not take a part for the whole.
  if (!host.out && *code == ExitCode::kDone) {
    const absl::Status lost = absl::InternalError("the output could not be written");
    host.err << ErrorText(lost, json) << std::flush;
    code = ExitCodeOf(lost);
  }
  return static_cast<int>(*code);
}

}  // namespace muster::cli
