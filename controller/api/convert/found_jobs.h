// The answer to FindJobs: the jobs of a snapshot that somebody looks for, in the order that they
// want. Cost follows the number of jobs in memory. Pure.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "controller/access/access_types.h"
#include "controller/model/snapshot.h"
#include "muster/v1/page_service.pb.h"

namespace muster::controller {

// `archived`: how many jobs are in history.db. `may_read`: null, jobs of all projects.
// INVALID_ARGUMENT: the request.
absl::Status FillFoundJobs(const Snapshot& snapshot, size_t archived,
                           const v1::FindJobsRequest& request, const MayRead& may_read,
                           v1::FindJobsResponse& response);

}  // namespace muster::controller
