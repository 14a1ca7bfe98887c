// Bounds of projects and users: how many slots they may hold and how many jobs may wait. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "controller/model/types/project_types.h"

namespace muster::controller {

// Whose bounds count for a job.
struct QuotaHolder {
  const Project* project = nullptr;  // null: nobody has set it, nothing is bounded
  const std::string& project_name;
  const std::string& user;
};

// Whether `jobs` more may join the queue. RESOURCE_EXHAUSTED "refused: ..." when not.
absl::Status MayQueue(const QuotaHolder& holder, const ProjectUse& use, uint32_t jobs);

// Why `slots` more would be too many, or nothing: "project vision holds 6 of its 8 slots and the
// job needs 4".
std::optional<std::string> WhyOverSlots(const QuotaHolder& holder, const ProjectUse& use,
                                        uint32_t slots);

// How many slots must come free in the project, and of them of its user, before `slots` more are
// within the bounds.
struct SlotsOver {
  uint32_t project = 0;
  uint32_t user = 0;
};
SlotsOver CountSlotsOver(const QuotaHolder& holder, const ProjectUse& use, uint32_t slots);

// FAILED_PRECONDITION "refused: ..." when a job of `slots` is over a quota even if it were alone.
absl::Status FitsQuota(const QuotaHolder& holder, uint32_t slots);

}  // namespace muster::controller
