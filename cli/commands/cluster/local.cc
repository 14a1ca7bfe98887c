// `muster local up / status / down`: a whole Muster on this machine, under one folder.
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/commands/cluster/local_dir.h"
#include "cli/commands/commands.h"
#include "cli/local/daemon_process.h"
#include "cli/local/local_control.h"
#include "cli/session/saved_contexts.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/rpc/token_file.h"

namespace muster::cli {
namespace {

constexpr absl::Duration kUpTimeout = absl::Minutes(1);
// Workers save their jobs first.
constexpr absl::Duration kDownTimeout = absl::Seconds(90);
constexpr absl::Duration kReadyCallTimeout = absl::Seconds(5);
constexpr int kMaxWorkers = 64;
constexpr int kMaxSlots = 1024;

struct LocalFlags {
  SupervisorOptions options{.listen = "127.0.0.1:7070",
                            .worker_listen = "127.0.0.1:7071",
                            .http_listen = "127.0.0.1:7072"};
  std::string restart_delay = "1s";
  bool any_port = false;
};

absl::StatusOr<SupervisorOptions> OptionsOf(const LocalFlags& flags, const Host& host) {
  SupervisorOptions options = flags.options;
  MUSTER_ASSIGN_OR_RETURN(options.dir, LocalDir(options.dir, host));
  if (options.bin_dir.empty()) options.bin_dir = host.Env("MUSTER_BIN_DIR");
  if (options.bin_dir.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const std::string self, OwnPath());
    options.bin_dir = self.substr(0, self.rfind('/'));
  }
  options.bin_dir = Absolute(options.bin_dir);
  MUSTER_ASSIGN_OR_RETURN(options.restart_delay, ParseDuration(flags.restart_delay));
  if (flags.any_port) {
    for (std::string* address : {&options.listen, &options.worker_listen, &options.http_listen}) {
      *address = "127.0.0.1:0";
    }
  }
  return options;
}

Table StatusTable(const LocalRecord& record) {
  Table table({{"NAME"},
               {"STATE"},
               {"PID", true},
               {"RESTARTS", true},
               {"ADDRESS"},
               {"METRICS", false, true}});
  for (const DaemonRecord& daemon : record.daemons) {
    table.Add({daemon.name, daemon.state, daemon.pid == 0 ? "" : absl::StrCat(daemon.pid),
               absl::StrCat(daemon.restarts), daemon.grpc_address, daemon.metrics_url});
  }
  return table;
}

void PrintStatus(const LocalStatus& status, Session& session) {
  std::string page;
  if (status.running) {
    page = absl::StrCat("running under ", status.record.dir, ", supervisor ",
                        status.record.supervisor_pid, "\n",
                        StatusTable(status.record).Render(session.globals().header));
  } else {
    page = absl::StrCat("no local Muster runs under ", status.record.dir, "\n");
  }
  session.PrintOne(page, LocalStatusJson(status.record, status.running), "dir");
}

absl::StatusOr<bool> AllReady(const LocalRecord& record) {
  auto token = ReadTokenFile(LocalPaths{record.dir}.token());
  if (absl::IsNotFound(token.status())) return false;
  MUSTER_RETURN_IF_ERROR(token.status());
  Client client({.address = record.daemons.front().grpc_address, .token = *std::move(token)});
  MUSTER_ASSIGN_OR_RETURN(
      const v1::ListWorkersResponse workers,
      client.Call(&Jobs::ListWorkers, v1::ListWorkersRequest(), kReadyCallTimeout));
  size_t ready = 0;
  for (const v1::WorkerInfo& worker : workers.workers()) {
    for (const DaemonRecord& daemon : record.daemons)
      ready += worker.name() == daemon.name && worker.state() == "ready";
  }
  return ready == record.daemons.size() - 1;
}

// So that later commands find this controller.
absl::Status Remember(const LocalRecord& record, Session& session) {
  const std::string& address = record.daemons.front().grpc_address;
  if (const std::string other = session.host().Env("MUSTER_ADDR");
      !other.empty() && other != address) {
    session.Say(absl::StrCat("note: MUSTER_ADDR is set to ", other,
                             ", so `muster` will not talk to this one"));
  }
  absl::StatusOr<ContextConfig> config = LoadContexts(session.host(), session.fs());
  if (config.ok() && !config->current.empty() && config->current != kLocalContext) {
    session.Say(absl::StrCat("note: the context in use is now `local`; `muster config use-context ",
                             config->current, "` brings the other one back"));
    config->current = kLocalContext;
    MUSTER_RETURN_IF_ERROR(SaveContexts(session.host(), session.fs(), *config));
  }
  return SaveContext(session.host(), session.fs(),
                     {.address = address, .token_file = LocalPaths{record.dir}.token()});
}

absl::StatusOr<ExitCode> RunUp(const LocalFlags& flags, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const SupervisorOptions options, OptionsOf(flags, session.host()));
  const LocalPaths paths{options.dir};
  LocalStatus status = ReadLocalStatus(paths, session.fs());
  if (status.running && !status.record.stopping && !status.record.daemons.empty()) {
    session.Say(absl::StrCat("already running under ", options.dir));
    if (status.record.daemons.size() != static_cast<size_t>(options.workers) + 1) {
      session.Say(absl::StrCat("it has ", status.record.daemons.size() - 1,
                               " workers; to have another number, run `muster local down` first"));
    }
    if (!status.record.daemons.front().grpc_address.empty()) {
      MUSTER_RETURN_IF_ERROR(Remember(status.record, session));
    }
    PrintStatus(status, session);
    return ExitCode::kDone;
  }
  if (status.running) {
    return WithHint(
        absl::FailedPreconditionError(absl::StrCat(
            "the Muster under ", options.dir, " is ",
            status.record.stopping ? "being stopped" : "being started by another command")),
        "try again in a moment");
  }
  MUSTER_RETURN_IF_ERROR(CheckLocalStart(options));
  if (::access(absl::StrCat(options.bin_dir, "/muster-trainer").c_str(), X_OK) != 0) {
    session.Say(absl::StrCat("note: there is no muster-trainer in ", options.bin_dir,
                             ", so no job can train"));
  }
  session.Say(absl::StrCat("starting musterd and ", options.workers,
                           options.workers == 1 ? " worker" : " workers", " under ", options.dir));
  status.running = true;
  MUSTER_ASSIGN_OR_RETURN(status.record,
                          StartLocal(options, session.fs(), session.timeout(kUpTimeout), AllReady));
  MUSTER_RETURN_IF_ERROR(Remember(status.record, session));
  PrintStatus(status, session);
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> RunStatus(const LocalFlags& flags, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const std::string dir, LocalDir(flags.options.dir, session.host()));
  const LocalStatus status = ReadLocalStatus({dir}, session.fs());
  PrintStatus(status, session);
  return status.running ? ExitCode::kDone : ExitCode::kNotFound;
}

absl::StatusOr<ExitCode> RunDown(const LocalFlags& flags, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const std::string dir, LocalDir(flags.options.dir, session.host()));
  const LocalPaths paths{dir};
  const LocalStatus status = ReadLocalStatus(paths, session.fs());
  if (!status.running) {
    session.Say(absl::StrCat("no local Muster runs under ", dir));
    return ExitCode::kDone;
  }
  session.Say(absl::StrCat("stopping the Muster under ", dir, "; jobs save what they have"));
  const absl::Status stopped = StopLocal(paths, session.timeout(kDownTimeout));
  if (!status.record.daemons.empty()) {
    MUSTER_RETURN_IF_ERROR(
        ForgetContext(session.host(), session.fs(), status.record.daemons.front().grpc_address));
  }
  if (!stopped.ok() && !absl::IsNotFound(stopped)) return stopped;
  return ExitCode::kDone;
}

// The process that `up` leaves behind.
absl::StatusOr<ExitCode> RunSupervise(const LocalFlags& flags, Session& session) {
  SetLogProgram("muster-local");
  MUSTER_ASSIGN_OR_RETURN(SupervisorOptions options, OptionsOf(flags, session.host()));
  MUSTER_ASSIGN_OR_RETURN(const UniqueFd lock, TakeLock(LocalPaths{options.dir}.lock()));
  LocalSupervisor supervisor(std::move(options), session.fs());
  MUSTER_RETURN_IF_ERROR(supervisor.Run());
  return ExitCode::kDone;
}

void AddStartFlags(CLI::App* command, LocalFlags& flags) {
  SupervisorOptions& options = flags.options;
  command->add_option("--workers", options.workers, "so many workers, worker-1, worker-2, ...")
      ->capture_default_str()
      ->check(CLI::Range(1, kMaxWorkers));
  command->add_option("--slots-per-worker", options.slots_per_worker, "so many ranks fit on each")
      ->capture_default_str()
      ->check(CLI::Range(1, kMaxSlots));
  command->add_option("--listen", options.listen, "musterd's port for people")
      ->capture_default_str();
  command->add_option("--worker-listen", options.worker_listen, "musterd's port for workers")
      ->capture_default_str();
  command->add_option("--http-listen", options.http_listen, "musterd's port for the page and metrics")
      ->capture_default_str();
  command->add_flag("--any-port", flags.any_port, "take any free ports on loopback instead");
  command->add_option("--bin-dir", options.bin_dir,
                      "folder of musterd and muster-worker (MUSTER_BIN_DIR; else beside muster)");
  command
      ->add_option("--restart-delay", flags.restart_delay,
                   "a daemon that died is started again after this long")
      ->capture_default_str();
}

}  // namespace

void AddLocal(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("local", "run a whole Muster on this machine: up, status, down");
  command->require_subcommand(1);
  const auto flags = std::make_shared<LocalFlags>();
  const auto add = [&](const char* name, const char* help,
                       absl::StatusOr<ExitCode> (*run)(const LocalFlags&, Session&)) {
    CLI::App* child = command->add_subcommand(name, help);
    child->add_option("--dir", flags->options.dir, "the folder of everything (MUSTER_LOCAL_DIR)");
    child->callback(
        [=, &session, &verb] { verb = [=, &session] { return run(*flags, session); }; });
    return child;
  };
  AddStartFlags(
      add("up", "start musterd and workers, restart what dies, return when all are ready", RunUp),
      *flags);
  add("status", "what runs: names, states, pids, addresses (exit code 3: nothing)", RunStatus);
  add("down", "stop all of it; jobs save first and go on after the next `up`", RunDown);
  CLI::App* supervise = add("supervise", "the process that `up` starts", RunSupervise);
  supervise->group("");
  AddStartFlags(supervise, *flags);
}

}  // namespace muster::cli
