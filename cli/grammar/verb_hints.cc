#include "cli/grammar/verb_hints.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "cli/session/error.h"
#include "common/spec/tree/spec_fault.h"

namespace muster::cli {
namespace {

constexpr size_t kMostNamedVerbs = 3;

// How others spell it. A word of two parts comes before its first part alone.
constexpr std::array<std::pair<const char*, const char*>, 63> kOtherWords = {{
    // kubectl
    {"get nodes", "nodes"},
    {"get node", "nodes"},
    {"get events", "events"},
    {"get", "ls"},
    {"describe node", "nodes -o wide"},
    {"describe nodes", "nodes -o wide"},
    {"describe", "show JOB"},
    {"apply", "submit FILE"},
    {"create", "submit FILE"},
    {"delete node", "nodes forget NAME"},
    {"delete", "cancel JOB"},
    {"cordon", "nodes drain NAME"},
    {"uncordon", "nodes undrain NAME"},
    {"rollout", "requeue JOB"},
    {"attach", "watch JOB"},
    {"cluster-info", "local status"},
    {"api-resources", "nodes"},
    {"cp", "ckpt export CKPT --out FILE"},
    // Slurm
    {"squeue", "ls"},
    {"sbatch", "submit FILE"},
    {"srun", "run -- CMD"},
    {"salloc", "run -- CMD"},
    {"scancel", "cancel JOB"},
    {"sinfo", "nodes"},
    {"scontrol show", "show JOB"},
    {"scontrol hold", "hold JOB"},
    {"scontrol release", "release JOB"},
    {"scontrol requeue", "requeue JOB"},
    {"scontrol suspend", "suspend JOB"},
    {"scontrol resume", "resume JOB"},
    {"scontrol update", "update JOB"},
    {"scontrol", "show JOB"},
    {"sacct", "history"},
    {"sacctmgr", "project"},
    {"sreport", "goodput"},
    {"sshare", "share"},
    {"sprio", "explain JOB"},
    {"sstat", "top"},
    {"sattach", "watch JOB"},
    {"sdiag", "top"},
    // Docker
    {"ps", "ls"},
    {"kill", "cancel JOB"},
    {"stop", "cancel JOB"},
    {"rm", "cancel JOB"},
    {"inspect", "show JOB"},
    {"pause", "suspend JOB"},
    {"unpause", "resume JOB"},
    {"restart", "requeue JOB"},
    {"stats", "top"},
    {"info", "local status"},
    {"diff", "compare JOB JOB"},
    // What people try first
    {"list", "ls"},
    {"jobs", "ls"},
    {"queue", "ls"},
    {"workers", "nodes"},
    {"node", "nodes"},
    {"checkpoints", "ckpt ls JOB"},
    {"start", "local up"},
    {"plot", "metrics JOB --plot loss"},
    {"tail", "logs JOB -f --tail 20"},
    {"ssh", "exec -t JOB -- bash"},
    {"queues", "nodes"},
    {"datasets", "data"},
}};

// The same of flags; a hint only for verbs that have ours.
constexpr std::array<std::pair<const char*, const char*>, 21> kOtherFlags = {{
    {"--selector", "--tag"},       {"-l", "--tag"},
    {"--label", "--tag"},          {"--field-selector", "--filter"},
    {"--sort-by", "--sort"},       {"--format", "--columns"},
    {"--previous", "--attempt"},   {"--lines", "--tail"},
    {"--namespace", "--project"},  {"--all-namespaces", "--all"},
    {"--account", "--project"},    {"--partition", "--pool"},
    {"--ntasks", "--ranks"},       {"--job-name", "--name"},
    {"--dependency", "--after"},   {"--time", "--max-run-time"},
    {"--mem", "--memory"},         {"--gres", "--gpus"},
    {"--cpus-per-task", "--cpus"}, {"--starttime", "--since"},
    {"--endtime", "--until"},
}};

const CLI::App& Innermost(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().back();
  return *at;
}

std::string ShowsHelp(const CLI::App& verb) {
  const std::string path = VerbPath(verb);
  return absl::StrCat("`muster ", path, path.empty() ? "" : " ", "--help` shows what ",
                      path.empty() ? "there is" : "it takes");
}

absl::Status Fault(const std::string& message, const std::string& hint) {
  return WithHint(absl::InvalidArgumentError(message), hint);
}

std::string DidYouMean(absl::string_view command) {
  return absl::StrCat("did you mean `", command, "`?");
}

std::string InOurWords(absl::string_view word, absl::string_view next) {
  const std::string both = absl::StrCat(word, " ", next);
  for (const absl::string_view given : {absl::string_view(both), word}) {
    for (const auto& [other, ours] : kOtherWords) {
      if (given == other) return ours;
    }
  }
  return "";
}

// Verbs of that name below another one: `drain` is `nodes drain`.
std::string FoundBelow(const CLI::App& app, absl::string_view word) {
  std::vector<std::string> found;
  for (const CLI::App* verb : ShownVerbs(app)) {
    for (const CLI::App* below : ShownVerbs(*verb)) {
      if (below->get_name() == word)
        found.push_back(absl::StrCat("`muster ", VerbPath(*below), "`"));
    }
  }
  return found.size() > kMostNamedVerbs ? "" : absl::StrJoin(found, " or ");
}

absl::Status UnknownVerb(const CLI::App& app, const std::string& word, const std::string& next) {
  const std::string message = absl::StrCat("unknown verb `", word, "`");
  const std::string ours = InOurWords(word, next);
  if (!ours.empty()) return Fault(message, absl::StrCat("it is `muster ", ours, "` here"));
  const std::string below = FoundBelow(app, word);
  if (!below.empty()) return Fault(message, absl::StrCat("it is ", below, " here"));
  std::vector<std::string> names;
  for (const CLI::App* verb : ShownVerbs(app)) names.push_back(verb->get_name());
  const std::string nearest = NearestName(word, names);
  return Fault(message, nearest.empty() ? ShowsHelp(app) : DidYouMean(nearest));
}

std::vector<std::string> FlagNames(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) names.push_back(absl::StrCat("--", name));
  for (const std::string& name : option.get_snames()) names.push_back(absl::StrCat("-", name));
  return names;
}

std::vector<std::string> FlagsInReach(const CLI::App& verb) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : OptionsInReach(verb)) {
    for (std::string& name : FlagNames(*option)) flags.push_back(std::move(name));
  }
  return flags;
}

// "`muster submit` and `muster update`": who takes the flag.
std::string TakenBy(const CLI::App& app, const std::string& flag) {
  std::vector<std::string> verbs;
  const auto look = [&](const CLI::App& verb) {
    const std::vector<const CLI::Option*> own =
        verb.get_options([](const CLI::Option*) { return true; });
    const bool takes = std::any_of(own.begin(), own.end(), [&](const CLI::Option* option) {
      const std::vector<std::string> names = FlagNames(*option);
      return std::count(names.begin(), names.end(), flag) > 0;
    });
    if (takes) verbs.push_back(absl::StrCat("`muster ", VerbPath(verb), "`"));
  };
  for (const CLI::App* verb : ShownVerbs(app)) {
    look(*verb);
    for (const CLI::App* below : ShownVerbs(*verb)) look(*below);
  }
  if (verbs.size() > kMostNamedVerbs) {
    verbs.resize(kMostNamedVerbs);
    verbs.back() = "others";
  }
  return absl::StrJoin(verbs, " and ");
}

absl::Status UnknownFlag(const CLI::App& app, const CLI::App& verb, const std::string& given) {
  const std::string flag = given.substr(0, given.find('='));
  const std::string path = VerbPath(verb);
  const std::string message = absl::StrCat(
      path.empty() ? "muster" : absl::StrCat("`muster ", path, "`"), " has no flag `", flag, "`");
  const std::vector<std::string> flags = FlagsInReach(verb);
  for (const auto& [other, ours] : kOtherFlags) {
    if (flag == other && std::count(flags.begin(), flags.end(), ours) > 0) {
      return Fault(message, absl::StrCat("it is `", ours, "` here"));
    }
  }
  if (const std::string takers = TakenBy(app, flag); !takers.empty()) {
    return Fault(message,
                 absl::StrCat("it is a flag of ", takers,
                              path.empty() ? ", behind the verb; " : "; ", ShowsHelp(verb)));
  }
  const std::string nearest = flag.size() > 2 ? NearestName(flag, flags) : "";
  return Fault(message, nearest.empty() ? ShowsHelp(verb) : DidYouMean(nearest));
}

absl::Status UnknownWord(const CLI::App& verb, const std::string& word) {
  const std::string path = VerbPath(verb);
  const std::string message = absl::StrCat("`muster ", path, "` does not take `", word, "`");
  std::vector<std::string> below;
  for (const CLI::App* sub : ShownVerbs(verb)) below.push_back(sub->get_name());
  const std::string nearest = NearestName(word, below);
  if (!nearest.empty()) return Fault(message, DidYouMean(absl::StrCat(path, " ", nearest)));
  if (path == "submit" || path == "run") {
    return Fault(message, absl::StrCat("a program stands behind `--`: `muster ", path,
                                       " -- python train.py`; ", ShowsHelp(verb)));
  }
  if (path == "top") return Fault(message, "`muster top` shows workers and jobs, both");
  if (path == "ls") {
    return Fault(message,
                 absl::StrCat("`muster show ", word, "` is about one job; ", ShowsHelp(verb)));
  }
  return Fault(message, ShowsHelp(verb));
}

}  // namespace

std::string VerbPath(const CLI::App& verb) {
  if (verb.get_parent() == nullptr) return "";
  const std::string above = VerbPath(*verb.get_parent());
  return absl::StrCat(above, above.empty() ? "" : " ", verb.get_name());
}

std::vector<const CLI::Option*> OptionsInReach(const CLI::App& verb) {
  std::vector<const CLI::Option*> options;
  for (const CLI::App* at = &verb; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options([](const CLI::Option*) { return true; })) {
      // What is above has its own --help and --version.
      const bool shared = at == &verb || (option->get_configurable() && option->nonpositional());
      if (shared && !option->get_group().empty()) options.push_back(option);
    }
  }
  return options;
}

std::vector<const CLI::App*> ShownVerbs(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) { return !verb->get_group().empty(); });
}

bool HasUnknownVerb(const CLI::App& app) {
  return app.get_subcommands().empty() && !app.remaining().empty() &&
         !absl::StartsWith(app.remaining().front(), "-");
}

absl::Status UsageError(const CLI::App& app, const std::vector<std::string>& args,
                        const CLI::ParseError& fault) {
  const CLI::App& verb = Innermost(app);
  // By its code: the name of an ExtrasError is that of the program.
  const auto kind = static_cast<CLI::ExitCodes>(fault.get_exit_code());
  const bool leaves_some = kind == CLI::ExitCodes::ExtrasError ||
                           kind == CLI::ExitCodes::RequiredError ||
                           kind == CLI::ExitCodes::Success;  // help, of a verb that there is not
  const std::vector<std::string> left = app.remaining(/*recurse=*/true);
  if (leaves_some && !left.empty()) {
    const std::string& word = left.front();
    if (absl::StartsWith(word, "-") && word != "-") return UnknownFlag(app, verb, word);
    // In front of every verb it stands for one: `get nodes`.
    const auto given = std::find(args.begin(), args.end(), word);
    const auto parsed = app.get_subcommands();
    const auto first = parsed.empty()
                           ? args.end()
                           : std::find(args.begin(), args.end(), parsed.front()->get_name());
    if (given < first) {
      const bool more = given != args.end() && given + 1 != args.end();
      return UnknownVerb(app, word, more ? *(given + 1) : "");
    }
    return UnknownWord(verb, word);
  }
  return Fault(fault.what(), ShowsHelp(verb));
}

}  // namespace muster::cli
