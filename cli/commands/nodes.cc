// `muster nodes`: the workers and what they hold; drain and undrain them.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/all_workers.h"
#include "cli/change.h"
#include "cli/commands/commands.h"
#include "cli/output/views.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

absl::StatusOr<ExitCode> List(Session& session) {
  MUSTER_ASSIGN_OR_RETURN(std::vector<v1::WorkerInfo> workers, AllWorkers(session));
  std::sort(workers.begin(), workers.end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
  session.PrintList(WorkerTable(workers, WallNow(), session.globals().wide()), ToJsonList(workers),
                    "name");
  return ExitCode::kDone;
}

struct Flags {
  std::vector<std::string> names;
  std::string reason;
  bool let_finish = false;
};

// Goes on after a worker that there is not; the first error decides the exit code.
absl::StatusOr<ExitCode> Cordon(bool cordoned, const Flags& flags, Session& session) {
  std::vector<v1::WorkerInfo> done;
  absl::Status first;
  for (const std::string& name : flags.names) {
    v1::CordonWorkerRequest request;
    request.set_worker(name);
    request.set_cordoned(cordoned);
    request.set_reason(flags.reason);
    request.set_let_finish(flags.let_finish);
    request.set_user(UserName(session.host()));
    auto response = SendChange(session, rpc::kCordonWorker, request);
    if (response.ok()) {
      done.push_back(response->worker());
    } else if (first.ok()) {
      first = response.status();
    } else {
      session.host().err << ErrorText(response.status(), IsJson(session.globals().format));
    }
  }
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

CLI::App* AddCordon(CLI::App& nodes, const char* name, const char* help,
                    const std::shared_ptr<Flags>& flags) {
  CLI::App* command = nodes.add_subcommand(name, help);
  command->add_option("NAME", flags->names, "names of workers")->required();
  return command;
}

}  // namespace

void AddNodes(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command = app.add_subcommand("nodes", "list the workers; drain and undrain them");
  command->require_subcommand(0, 1);
  const auto flags = std::make_shared<Flags>();
  CLI::App* drain = AddCordon(*command, "drain",
                              "give workers nothing new; jobs there save and go elsewhere, free of "
                              "charge",
                              flags);
  drain->add_option("--reason", flags->reason, "why, for others to see");
  drain->add_flag("--let-finish", flags->let_finish, "let jobs there run to their end instead");
  CLI::App* undrain = AddCordon(*command, "undrain", "let workers take jobs again", flags);
  command->callback([=, &session, &verb] {
    if (drain->parsed()) {
      verb = [flags, &session] { return Cordon(true, *flags, session); };
    } else if (undrain->parsed()) {
      verb = [flags, &session] { return Cordon(false, *flags, session); };
    } else {
      verb = [&session] { return List(session); };
    }
  });
}

}  // namespace muster::cli
