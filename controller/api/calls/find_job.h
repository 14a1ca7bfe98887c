// The job that a request means. Used by every call that takes a JobRef.
#pragma once

#include "absl/status/statusor.h"
#include "controller/model/snapshot.h"
#include "muster/v1/job_service.pb.h"

namespace muster::controller {

// INVALID_ARGUMENT: it names none. NOT_FOUND. The row lives as long as the snapshot.
absl::StatusOr<const Job*> FindJob(const Snapshot& snapshot, const v1::JobRef& ref);

}  // namespace muster::controller
