#include "controller/policy/limits/quota_line.h"

namespace muster::controller {

QuotaLine::Verdict QuotaLine::Pass(uint64_t job_id, const std::string& user, uint32_t slots) {
  if (project_ == nullptr) return {};
  const QuotaHolder holder = HolderOf(user);
  Verdict verdict;
  verdict.over = WhyOverSlots(holder, ProjectUse(), slots);
  if (verdict.over.has_value()) {
    verdict.held_back = verdict.even_alone = true;
    return verdict;
  }
  verdict.over = WhyOverSlots(holder, use_, slots);
  verdict.is_first = FullBy(user) == 0;
  verdict.held_back = verdict.over.has_value() || !verdict.is_first;
  if (!verdict.held_back) return verdict;
  const std::optional<uint32_t>& most = project_->quota.slots;
  if (most.has_value() && use_.all.slots + slots > *most) {
    if (full_by_ == 0) full_by_ = job_id;
  } else if (verdict.over.has_value()) {
    full_users_.emplace(user, job_id);
  }
  return verdict;
}

void QuotaLine::Take(const std::string& user, uint32_t slots) {
  use_.all.slots += slots;
  use_.users[user].slots += slots;
}

uint64_t QuotaLine::FullBy(const std::string& user) const {
  if (full_by_ != 0) return full_by_;
  const auto of_user = full_users_.find(user);
  return of_user == full_users_.end() ? 0 : of_user->second;
}

}  // namespace muster::controller
