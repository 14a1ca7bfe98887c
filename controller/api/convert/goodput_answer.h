// The answer to GetGoodput: ledgers of a snapshot, added up. Pure.
#pragma once

#include "absl/time/time.h"
#include "controller/model/snapshot.h"
#include "muster/v1/job_service.pb.h"

namespace muster::controller {

inline constexpr int kMaxLedgerRows = 1000;

// `now_at`, since boot: up to when open intervals count. `job` (may be null): only this one.
v1::GetGoodputResponse AnswerGoodput(const Snapshot& snapshot, absl::Duration now_at,
                                     const v1::GetGoodputRequest& request, const Job* job);

}  // namespace muster::controller
