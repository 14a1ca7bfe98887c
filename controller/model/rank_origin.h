// Where a rank was placed: who may report what it did.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "controller/model/history.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/metrics_types.h"

namespace muster::controller {

// Whether that rank of that attempt, live or past, was placed on the worker: then its metrics and
// logs come from there. Those of a past one too: they are the record of what it did, kept under its
// own number, and an agent may bring them long after.
bool WasPlacedOn(const Job& job, const RankKey& key, absl::string_view worker);
// The same for a job that is in the snapshot or, archived, in the history. False: there is no such
// job. Errors: the history cannot be read.
absl::StatusOr<bool> WasPlacedOn(const Snapshot& snapshot, History& history, const RankKey& key,
                                 absl::string_view worker);

}  // namespace muster::controller
