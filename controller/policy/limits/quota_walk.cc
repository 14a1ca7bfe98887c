#include "controller/policy/limits/quota_walk.h"

namespace muster::controller {
namespace {

void Add(ProjectUse& use, const std::string& user, uint32_t slots) {
  use.all.slots += slots;
  use.users[user].slots += slots;
}

}  // namespace

QuotaWalk::Decision QuotaWalk::Pass(uint64_t job_id, const std::string& user, uint32_t slots) {
  if (project_ == nullptr) return {};
  const QuotaHolder holder = HolderOf(user);
  Decision decision;
  decision.over = WhyOverSlots(holder, ProjectUse(), slots);
  if (decision.over.has_value()) {
    decision.held_back = decision.even_alone = true;
    return decision;
  }
  decision.over = WhyOverSlots(holder, use_, slots);
  decision.is_first = FullBy(user) == 0;
  const bool over_with_kept = WhyOverSlots(holder, with_reserved_, slots).has_value();
  decision.held_back = over_with_kept || !decision.is_first;
  if (!decision.held_back) return decision;
  const std::optional<uint32_t>& most = project_->quota.slots;
  if (most.has_value() && with_reserved_.all.slots + slots > *most) {
    if (full_by_ == 0) full_by_ = job_id;
  } else if (over_with_kept) {
    full_users_.emplace(user, job_id);
  }
  return decision;
}

void QuotaWalk::Take(const std::string& user, uint32_t slots) {
  Add(use_, user, slots);
  Add(with_reserved_, user, slots);
}

bool QuotaWalk::MayReserve(const std::string& user, uint32_t slots) const {
  return project_ == nullptr || !WhyOverSlots(HolderOf(user), with_reserved_, slots).has_value();
}

void QuotaWalk::Reserve(const std::string& user, uint32_t slots) {
  Add(with_reserved_, user, slots);
}

uint64_t QuotaWalk::FullBy(const std::string& user) const {
  if (full_by_ != 0) return full_by_;
  const auto of_user = full_users_.find(user);
  return of_user == full_users_.end() ? 0 : of_user->second;
}

}  // namespace muster::controller
