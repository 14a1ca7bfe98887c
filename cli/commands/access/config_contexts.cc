// `muster config`: the clusters that one has logged in to, and which of them is in use.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/commands/access/access_verbs.h"
#include "cli/session/saved_contexts.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

struct ConfigFlags {
  std::string name;
};

// None where nobody has logged in.
absl::StatusOr<ContextConfig> LoadOrNone(Session& session) {
  absl::StatusOr<ContextConfig> config = LoadContexts(session.host(), session.fs());
  if (absl::IsNotFound(config.status())) return ContextConfig();
  return config;
}

// That of `muster local up` with the others.
absl::StatusOr<std::map<std::string, SavedContext>> AllContexts(const ContextConfig& config,
                                                                Session& session) {
  std::map<std::string, SavedContext> all = config.contexts;
  absl::StatusOr<SavedContext> local = LoadContext(session.host(), session.fs());
  if (local.ok()) all[kLocalContext] = *std::move(local);
  if (!local.ok() && !absl::IsNotFound(local.status())) return local.status();
  return all;
}

std::string InUse(const ContextConfig& config) {
  return config.current.empty() ? kLocalContext : config.current;
}

absl::Status NoSuchContext(const std::string& name) {
  return WithHint(absl::NotFoundError(absl::StrCat("context ", name, ": there is none")),
                  "`muster config get-contexts` lists them, `muster login` makes one");
}

absl::StatusOr<ExitCode> GetContexts(const ConfigFlags&, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const ContextConfig config, LoadOrNone(session));
  MUSTER_ASSIGN_OR_RETURN(const auto all, AllContexts(config, session));
  Table table({{.title = "USED"}, {.title = "NAME"}, {.title = "ADDRESS"}, {.title = "SAFE"}});
  std::vector<Json> items;
  for (const auto& [name, context] : all) {
    const bool current = name == InUse(config);
    table.Add({current ? "*" : "", name, context.address,
               !context.ca_file.empty() ? "TLS"
               : context.insecure       ? "no (--insecure)"
                                        : "loopback"});
    items.push_back({{"name", name},
                     {"current", current},
                     {"address", context.address},
                     {"token_file", context.token_file},
                     {"ca_file", context.ca_file},
                     {"insecure", context.insecure}});
  }
  session.PrintList(table, items, "name");
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> CurrentContext(const ConfigFlags&, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const ContextConfig config, LoadOrNone(session));
  MUSTER_ASSIGN_OR_RETURN(const auto all, AllContexts(config, session));
  const std::string name = InUse(config);
  if (all.count(name) == 0) return NoSuchContext(name);
  session.PrintOne(absl::StrCat(name, "\n"), {{"name", name}}, "name");
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> UseContext(const ConfigFlags& flags, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(ContextConfig config, LoadOrNone(session));
  MUSTER_ASSIGN_OR_RETURN(const auto all, AllContexts(config, session));
  if (all.count(flags.name) == 0) return NoSuchContext(flags.name);
  config.current = flags.name;
  MUSTER_RETURN_IF_ERROR(SaveContexts(session.host(), session.fs(), config));
  session.PrintOne(absl::StrCat("context ", flags.name, " is in use\n"), {{"name", flags.name}},
                   "name");
  return ExitCode::kDone;
}

// Without trying it; the files stay where they are.
absl::StatusOr<ExitCode> SetContext(const ConfigFlags& flags, Session& session) {
  MUSTER_RETURN_IF_ERROR(CheckContextName(flags.name));
  MUSTER_ASSIGN_OR_RETURN(ContextConfig config, LoadOrNone(session));
  const ContextFlags& given = session.globals().context;
  const bool is_new = config.contexts.count(flags.name) == 0;
  if (is_new && given.address.empty()) {
    return absl::InvalidArgumentError("give the controller's address with --addr");
  }
  SavedContext& context = config.contexts[flags.name];
  const SavedContext former = context;
  if (!given.address.empty()) {
    MUSTER_RETURN_IF_ERROR(CheckAddress(given.address));
    // What was given for one address is not for another.
    if (given.address != former.address) context = {.address = given.address};
  }
  if (!given.token_file.empty()) context.token_file = given.token_file;
  if (!given.ca_file.empty()) context.ca_file = given.ca_file;
  if (given.insecure) context.insecure = true;
  MUSTER_RETURN_IF_ERROR(SaveContexts(session.host(), session.fs(), config));
  std::vector<std::string> cleared;
  if (context.token_file.empty() && !former.token_file.empty()) {
    cleared.push_back(absl::StrCat("--token-file ", former.token_file));
  }
  if (context.ca_file.empty() && !former.ca_file.empty()) {
    cleared.push_back(absl::StrCat("--ca-file ", former.ca_file));
  }
  if (!context.insecure && former.insecure) cleared.push_back("--insecure");
  if (!cleared.empty()) {
    session.Say(absl::StrCat("context ", flags.name, " had for ", former.address,
                             " and has no more: ", absl::StrJoin(cleared, " "), "; give it for ",
                             context.address, ", or log in there: muster login ", context.address,
                             " --name ", flags.name));
  }
  session.PrintOne(absl::StrCat("context ", flags.name, ": ", is_new ? "made" : "changed", "\n"),
                   {{"name", flags.name}}, "name");
  return ExitCode::kDone;
}

// With what `muster login` wrote for it.
absl::StatusOr<ExitCode> DeleteContext(const ConfigFlags& flags, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(ContextConfig config, LoadOrNone(session));
  const auto context = config.contexts.find(flags.name);
  if (context == config.contexts.end()) return NoSuchContext(flags.name);
  const SavedContext gone = context->second;
  config.contexts.erase(context);
  if (config.current == flags.name) config.current.clear();
  // The token first: what is left behind by a crash in between is a context without one.
  MUSTER_RETURN_IF_ERROR(RemoveKept(session.host(), session.fs(), gone, config));
  MUSTER_RETURN_IF_ERROR(SaveContexts(session.host(), session.fs(), config));
  session.PrintOne(absl::StrCat("context ", flags.name,
                                ": deleted, with its token here; an admin "
                                "ends the token itself: muster token revoke\n"),
                   {{"name", flags.name}}, "name");
  return ExitCode::kDone;
}

// All of it but the tokens.
absl::StatusOr<ExitCode> ViewConfig(const ConfigFlags&, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const ContextConfig config, LoadOrNone(session));
  MUSTER_ASSIGN_OR_RETURN(const auto all, AllContexts(config, session));
  Json json = {{"current", InUse(config)}, {"contexts", Json::object()}};
  for (const auto& [name, context] : all) {
    json["contexts"][name] = {{"address", context.address},
                              {"token_file", context.token_file},
                              {"ca_file", context.ca_file},
                              {"insecure", context.insecure}};
  }
  session.PrintOne(YamlText(json), json, "current");
  return ExitCode::kDone;
}

}  // namespace

void AddConfig(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command = app.add_subcommand("config", "the clusters that you have logged in to")
                          ->require_subcommand(1);
  const auto flags = std::make_shared<ConfigFlags>();
  const auto add = [&, flags](const char* name, const char* help, auto run, bool named) {
    CLI::App* one = command->add_subcommand(name, help);
    if (named) one->add_option("NAME", flags->name, "the context")->required();
    one->callback([flags, run, &session, &verb] {
      verb = [flags, run, &session] { return run(*flags, session); };
    });
  };
  add("get-contexts", "list them", &GetContexts, false);
  add("current-context", "the one in use", &CurrentContext, false);
  add("use-context", "use this one from now on", &UseContext, true);
  add("set-context", "make or change one by --addr, --token-file, --ca-file and --insecure",
      &SetContext, true);
  add("delete-context", "forget one, and its token here", &DeleteContext, true);
  add("view", "all of it, without the tokens themselves", &ViewConfig, false);
}

}  // namespace muster::cli
