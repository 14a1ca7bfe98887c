// `muster nodes`: the workers and what they hold; drain, undrain and forget them.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/calls/all_workers.h"
#include "cli/calls/change.h"
#include "cli/commands/cluster/join_token_verb.h"
#include "cli/commands/commands.h"
#include "cli/commands/list_flags.h"
#include "cli/output/views/views.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

std::vector<ListKey> NodesKeys() {
  return {{"used", "slots_used"},
          {"memory", "memory_bytes"},
          {"seen", "last_heartbeat_ms", /*age=*/true},
          {"jobs", "job_ids"},
          {"commands", "allows_commands"},
          {"images", "container_runtimes"},
          {"address", "advertise_address"},
          {"metrics", "metrics_address"}};
}

absl::StatusOr<ExitCode> ListWorkers(const ListRequest& list, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const ListView view,
                          ListView::Create(list, NodesKeys(), ToJson(v1::WorkerInfo()), WallNow()));
  MUSTER_ASSIGN_OR_RETURN(std::vector<v1::WorkerInfo> workers, AllWorkers(session));
  std::sort(workers.begin(), workers.end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
  workers = view.Arrange(workers);
  MUSTER_RETURN_IF_ERROR(
      PrintListView(view, WorkerTable(workers, WallNow(), NeedsWideTable(view, session)),
                    ToJsonList(workers), "name", session));
  return ExitCode::kDone;
}

struct NodesFlags {
  std::vector<std::string> names;
  std::string reason;
  bool let_finish = false;
  bool gone = false;
  ListRequest list;
};

// Does it to each worker that is named. Goes on after an error; the first decides the exit code.
template <typename Act>
absl::Status ForEachName(const NodesFlags& flags, Session& session, Act act) {
  absl::Status first;
  for (const std::string& name : flags.names) {
    const absl::Status done = act(name);
    if (done.ok()) continue;
    if (first.ok()) {
      first = done;
    } else {
      session.host().err << ErrorText(done, IsJson(session.globals().format));
    }
  }
  return first;
}

absl::StatusOr<ExitCode> Cordon(bool cordoned, const NodesFlags& flags, Session& session) {
  std::vector<v1::WorkerInfo> done;
  const absl::Status first = ForEachName(flags, session, [&](const std::string& name) {
    v1::CordonWorkerRequest request;
    request.set_worker(name);
    request.set_cordoned(cordoned);
    request.set_reason(flags.reason);
    request.set_let_finish(flags.let_finish);
    request.set_user(UserName(session.host()));
    auto response = SendChange(session, &Jobs::CordonWorker, request);
    if (response.ok()) done.push_back(response->worker());
    return response.status();
  });
  if (session.globals().tables()) {
    for (const v1::WorkerInfo& worker : done) {
      session.host().out << "worker " << worker.name() << ": " << worker.state() << "\n";
    }
  } else if (!done.empty()) {
    session.PrintList(Table({}), ToJsonList(done), "name");
  }
  if (!first.ok()) return first;
  return ExitCode::kDone;
}

// Where an earlier try forgot the worker and its answer was lost, the next one finds no such
// worker.
absl::Status ForgetOne(const v1::ForgetWorkerRequest& request, Session& session) {
  int lost_tries = 0;
  const absl::Status status =
      SendChange(session, &Jobs::ForgetWorker, request, /*guard=*/nullptr, &lost_tries).status();
  return absl::IsNotFound(status) && lost_tries > 0 ? absl::OkStatus() : status;
}

absl::StatusOr<ExitCode> Forget(const NodesFlags& flags, Session& session) {
  std::vector<Json> forgotten;
  const absl::Status first = ForEachName(flags, session, [&](const std::string& name) {
    v1::ForgetWorkerRequest request;
    request.set_worker(name);
    request.set_gone(flags.gone);
    request.set_user(UserName(session.host()));
    const absl::Status done = ForgetOne(request, session);
    if (!done.ok()) return done;
    if (session.globals().tables()) {
      session.host().out << "worker " << name << ": forgotten\n";
    } else {
      forgotten.push_back({{"name", name}, {"forgotten", true}});
    }
    return done;
  });
  if (!forgotten.empty()) session.PrintList(Table({}), forgotten, "name");
  if (!first.ok()) return first;
  return ExitCode::kDone;
}

CLI::App* AddVerbOfNames(CLI::App& nodes, const char* name, const char* help,
                         const std::shared_ptr<NodesFlags>& flags) {
  CLI::App* command = nodes.add_subcommand(name, help);
  command->add_option("NAME", flags->names, "names of workers")->required();
  return command;
}

}  // namespace

void AddNodes(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("nodes", "list the workers; drain, undrain, forget and revoke them");
  command->require_subcommand(0, 1);
  const auto flags = std::make_shared<NodesFlags>();
  AddListFlags(*command, flags->list);
  CLI::App* drain = AddVerbOfNames(*command, "drain",
                                   "give workers nothing new; jobs there save and go elsewhere, "
                                   "free of charge",
                                   flags);
  drain->add_option("--reason", flags->reason, "why, for others to see");
  drain->add_flag("--let-finish", flags->let_finish, "let jobs there run to their end instead");
  CLI::App* undrain = AddVerbOfNames(*command, "undrain", "let workers take jobs again", flags);
  CLI::App* forget = AddVerbOfNames(*command, "forget", "take lost workers out of the list", flags);
  forget->add_flag("--gone", flags->gone,
                   "their machines are off for good: ranks that they were lost with are dead");
  CLI::App* revoke =
      AddVerbOfNames(*command, "revoke",
                     "refuse the certificates that workers have, and close their streams", flags);
  command->callback([=, &session, &verb] {
    if (revoke->parsed()) {
      verb = [flags, &session] { return RevokeCertificates(flags->names, session); };
    } else if (drain->parsed()) {
      verb = [flags, &session] { return Cordon(true, *flags, session); };
    } else if (undrain->parsed()) {
      verb = [flags, &session] { return Cordon(false, *flags, session); };
    } else if (forget->parsed()) {
      verb = [flags, &session] { return Forget(*flags, session); };
    } else {
      verb = [flags, &session] { return ListWorkers(flags->list, session); };
    }
  });
}

}  // namespace muster::cli
