// The answer to GetGoodput: ledgers of jobs, added up.
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "controller/access/access_types.h"
#include "controller/model/history.h"
#include "controller/model/snapshot.h"
#include "muster/v1/job_service.pb.h"

namespace muster::controller {

inline constexpr int kMaxLedgerRows = 1000;

// Of one job. `now_at`, since boot: up to when open intervals count.
v1::GetGoodputResponse AnswerGoodput(const Snapshot& snapshot, absl::Duration now_at,
                                     const Job& job);
// Of all that the request asks for, archived ones too. Cost follows the number of archived jobs in
// the time that is asked for. `may_read`: only jobs of these projects; null: of all. Errors:
// history.db cannot be read.
absl::StatusOr<v1::GetGoodputResponse> AnswerGoodput(const Snapshot& snapshot, History& history,
                                                     absl::Duration now_at,
                                                     const v1::GetGoodputRequest& request,
                                                     const MayRead& may_read = nullptr);

}  // namespace muster::controller
