// All workers of the controller, page after page. Shared by `nodes`, `top` and what sends jobs.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "cli/session/cli_session.h"
#include "cli/session/interrupt.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

// An interrupt ends it with CANCELLED where there is a guard.
absl::StatusOr<std::vector<v1::WorkerInfo>> AllWorkers(Session& session,
                                                       InterruptGuard* guard = nullptr);

}  // namespace muster::cli
