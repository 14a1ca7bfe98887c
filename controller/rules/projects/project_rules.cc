#include "controller/rules/projects/project_rules.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/model/ledger_rules.h"
#include "controller/policy/limits/fair_share.h"
#include "controller/rules/projects/hard_limits.h"

namespace muster::controller {
namespace {

constexpr double kLeastWeight = 0.001;
constexpr double kMostWeight = 1000;
constexpr size_t kMostUsers = 1000;  // with a quota of their own, in one project

// How many users have a quota of their own once the event is applied.
size_t UsersAfter(const SetProject& event, const Project* known) {
  size_t users = known == nullptr ? 0 : known->users.size();
  for (const auto& [user, quota] : event.users) {
    const bool has_one = known != nullptr && known->users.contains(user);
    if (quota.has_value() && !has_one) ++users;
    if (!quota.has_value() && has_one) --users;
  }
  return users;
}

absl::Status CheckProject(const SetProject& event, const Project* known) {
  if (event.project.empty()) return absl::InvalidArgumentError("a project needs a name");
  const bool good_weight =
      !event.weight.has_value() || (*event.weight >= kLeastWeight && *event.weight <= kMostWeight);
  if (!good_weight) {
    return absl::InvalidArgumentError(absl::StrCat("project ", event.project,
                                                   ": its weight must be from ", kLeastWeight,
                                                   " to ", kMostWeight, "; got ", *event.weight));
  }
  if (UsersAfter(event, known) > kMostUsers) {
    return absl::InvalidArgumentError(absl::StrCat("project ", event.project, ": at most ",
                                                   kMostUsers,
                                                   " users can have a quota of their own"));
  }
  return absl::OkStatus();
}

}  // namespace

EventResult OnSetProject(Draft& draft, const SetProject& event) {
  const Project* known = draft.view().FindProject(event.project);
  absl::Status checked = CheckProject(event, known);
  if (checked.ok()) checked = MayAddProject(draft, event.project);
  if (!checked.ok()) return Refuse(std::move(checked));
  Project& project = draft.EditProject(event.project);
  if (event.weight.has_value()) project.weight = *event.weight;
  if (event.quota.has_value()) project.quota = *event.quota;
  if (event.each_user.has_value()) project.each_user = *event.each_user;
  for (const auto& [user, quota] : event.users) {
    if (quota.has_value()) {
      project.users[user] = *quota;
    } else {
      project.users.erase(user);
    }
  }
  return {};
}

void ChargeProject(Draft& draft, uint64_t job_id, const RuleContext& context) {
  const Job& job = *draft.view().FindJob(job_id);
  const Attempt& attempt = *job.current;
  uint32_t slots = 0;
  for (const Rank& rank : attempt.ranks) slots += rank.slots.size();
  Project& project = draft.EditProject(job.settings->project);
  project.used = Charge(project.used, slots, HeldFrom(attempt), LedgerNow(draft, context),
                        context.use_half_life);
}

}  // namespace muster::controller
