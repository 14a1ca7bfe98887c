// All workers of the controller, page after page. Shared by `nodes`, and by what sends jobs.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "cli/session.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

absl::StatusOr<std::vector<v1::WorkerInfo>> AllWorkers(Session& session);

}  // namespace muster::cli
