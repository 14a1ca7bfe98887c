// The pages of ListJobs: jobs in memory and in history.db, newest first.
#pragma once

#include "absl/status/status.h"
#include "controller/access/access_types.h"
#include "controller/model/history.h"
#include "controller/model/snapshot.h"
#include "muster/v1/job_service.pb.h"

namespace muster::controller {

// INVALID_ARGUMENT: the request. An archived job whose rows are broken is left out, and said in the
// log. Other errors: those of `history`.
// `may_read`: only jobs of these projects; null: of all.
absl::Status FillJobs(const Snapshot& snapshot, History& history,
                      const v1::ListJobsRequest& request, const MayRead& may_read,
                      v1::ListJobsResponse& response);

}  // namespace muster::controller
