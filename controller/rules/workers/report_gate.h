// Checks that a numbered report comes from the holder of the name and is the next one. Pure; used
// by the rules.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "controller/model/draft.h"
#include "controller/rules/rules.h"

namespace muster::controller {

enum class Gate {
  kOpen,       // new; the number is marked as seen, durably with the batch
  kDuplicate,  // seen before: answer OK, change nothing
};

// ABORTED: a gap, because an earlier report failed. ALREADY_EXISTS: the sender does not hold the
// name. INVALID_ARGUMENT: event_seq is 0.
absl::StatusOr<Gate> PassGate(Draft& draft, const std::string& worker,
                              const std::string& incarnation, uint64_t event_seq);

// The worker when this incarnation holds the name, else ALREADY_EXISTS.
absl::StatusOr<const Worker*> FindSender(const Snapshot& snapshot, const std::string& worker,
                                         const std::string& incarnation);

// The report is of an attempt that is over: counts it, has the sender kill that gang's ranks if
// they may be alive, and makes the answer.
EventResult RefuseStale(Draft& draft, const Worker& sender, const Fence& fence, bool alive);

}  // namespace muster::controller
