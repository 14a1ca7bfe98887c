// JobLedger as it stands in its column: whole numbers with spaces between them, since it is written
// with each change of a job; and what is left of the ledgers of archived jobs. Private to
// controller/store. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "controller/model/types/ledger_types.h"
#include "controller/model/types/project_types.h"

namespace muster::controller {

// `until`, `queued`, phase, step, highest_step, repeats_until, `unconfirmed` and its label, then
// each label's slot-time; a time is two numbers, seconds and nanoseconds.
std::string EncodeLedger(const JobLedger& ledger);

// Empty: a row from before there was a ledger. `settled` is worked out. DATA_LOSS: broken.
absl::StatusOr<JobLedger> DecodeLedger(absl::string_view text);

// `queued`, then each label's slot-time. DATA_LOSS: broken.
std::string EncodeArchivedTime(const ArchivedTime& time);
absl::StatusOr<ArchivedTime> DecodeArchivedTime(absl::string_view text);

}  // namespace muster::controller
