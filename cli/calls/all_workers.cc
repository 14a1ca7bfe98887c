#include "cli/calls/all_workers.h"

#include "common/base/status_macros.h"

namespace muster::cli {

absl::StatusOr<std::vector<v1::WorkerInfo>> AllWorkers(Session& session, InterruptGuard* guard) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  std::vector<v1::WorkerInfo> workers;
  v1::ListWorkersRequest request;
  do {
    MUSTER_ASSIGN_OR_RETURN(const v1::ListWorkersResponse page,
                            client->Call(&Jobs::ListWorkers, request, session.timeout(), guard));
    workers.insert(workers.end(), page.workers().begin(), page.workers().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return workers;
}

}  // namespace muster::cli
