#include "controller/policy/limits/quota.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace muster::controller {
namespace {

// One bound: who it is for, what it allows, what is taken of it.
struct Bound {
  std::string who;
  std::optional<uint32_t> most;
  uint32_t taken = 0;
};

bool Over(const Bound& bound, uint32_t more) {
  return bound.most.has_value() && uint64_t{bound.taken} + more > *bound.most;
}

std::string User(const QuotaHolder& holder) {
  return absl::StrCat("user ", holder.user, " in project ", holder.project_name);
}

// Requires a project.
std::array<Bound, 2> SlotBounds(const QuotaHolder& holder, const ProjectUse& use) {
  return {
      Bound{absl::StrCat("project ", holder.project_name), holder.project->quota.slots,
            use.all.slots},
      Bound{User(holder), holder.project->QuotaOf(holder.user).slots, use.Of(holder.user).slots}};
}

}  // namespace

absl::Status MayQueue(const QuotaHolder& holder, const ProjectUse& use, uint32_t jobs) {
  if (holder.project == nullptr) return absl::OkStatus();
  const Bound bounds[] = {
      {absl::StrCat("project ", holder.project_name), holder.project->quota.queued, use.all.queued},
      {User(holder), holder.project->QuotaOf(holder.user).queued, use.Of(holder.user).queued}};
  for (const Bound& bound : bounds) {
    if (!Over(bound, jobs)) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "refused: ", bound.who, " has ", bound.taken, " jobs in the queue and may have ",
        *bound.most, ", ", jobs, " more would be too many: wait until some have started"));
  }
  return absl::OkStatus();
}

std::optional<std::string> WhyOverSlots(const QuotaHolder& holder, const ProjectUse& use,
                                        uint32_t slots) {
  if (holder.project == nullptr) return std::nullopt;
  for (const Bound& bound : SlotBounds(holder, use)) {
    if (!Over(bound, slots)) continue;
    return absl::StrCat("over quota: ", bound.who, " holds ", bound.taken, " of its ", *bound.most,
                        " slots and the job needs ", slots);
  }
  return std::nullopt;
}

SlotsOver CountSlotsOver(const QuotaHolder& holder, const ProjectUse& use, uint32_t slots) {
  SlotsOver over;
  if (holder.project == nullptr) return over;
  const auto count = [slots](std::optional<uint32_t> most, uint32_t taken) {
    return most.has_value() && taken + slots > *most ? taken + slots - *most : 0;
  };
  over.project = count(holder.project->quota.slots, use.all.slots);
  over.user = count(holder.project->QuotaOf(holder.user).slots, use.Of(holder.user).slots);
  return over;
}

absl::Status FitsQuota(const QuotaHolder& holder, uint32_t slots) {
  if (holder.project == nullptr) return absl::OkStatus();
  for (const Bound& bound : SlotBounds(holder, ProjectUse())) {
    if (!Over(bound, slots)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "refused: over quota: ", bound.who, " may hold ", *bound.most, " slots and the job needs ",
        slots, "; ask for fewer ranks, or have the quota raised"));
  }
  return absl::OkStatus();
}

}  // namespace muster::controller
