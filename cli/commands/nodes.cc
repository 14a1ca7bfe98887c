// `muster nodes`: the workers and what they hold.
#include <algorithm>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/output/views.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

absl::StatusOr<ExitCode> Run(Session& session) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  MUSTER_ASSIGN_OR_RETURN(const v1::ListWorkersResponse response,
                          client->Call(&v1::JobService::Stub::ListWorkers, v1::ListWorkersRequest(),
                                       session.timeout()));
  std::vector<v1::WorkerInfo> workers(response.workers().begin(), response.workers().end());
  std::sort(workers.begin(), workers.end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
  session.PrintList(WorkerTable(workers, WallNow(), session.globals().wide()), ToJsonList(workers),
                    "name");
  return ExitCode::kDone;
}

}  // namespace

void AddNodes(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command = app.add_subcommand("nodes", "list the workers");
  command->callback([&session, &verb] { verb = [&session] { return Run(session); }; });
}

}  // namespace muster::cli
