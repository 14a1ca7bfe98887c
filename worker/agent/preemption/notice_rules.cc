#include "worker/agent/preemption/notice_rules.h"

#include <algorithm>

namespace muster::worker {

NoticeChange NoticeRules::OnAnswer(const std::optional<MachineNotice>& answer, absl::Duration now) {
  if (answer.has_value()) {
    none_since_.reset();
    const absl::Duration deadline = now + answer->left;
    if (!stands_) {
      stands_ = true;
      deadline_ = deadline;
      return NoticeChange::kGiven;
    }
    if (deadline + kSameEnd > deadline_) return NoticeChange::kNone;
    deadline_ = deadline;
    return NoticeChange::kSooner;
  }
  if (!stands_) return NoticeChange::kNone;
  if (!none_since_.has_value()) none_since_ = now;
  if (now - *none_since_ < withdrawn_after_) return NoticeChange::kNone;
  stands_ = false;
  none_since_.reset();
  withdrawn_after_ = std::min(withdrawn_after_ * 2, kMaxWithdrawnAfter);
  return NoticeChange::kWithdrawn;
}

}  // namespace muster::worker
