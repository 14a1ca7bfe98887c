#include "worker/agent/gang/assignment_log.h"

#include <algorithm>
#include <utility>

namespace muster::worker {

bool AssignmentLog::Take(uint64_t outbox_seq) {
  if (!answers_.emplace(outbox_seq, std::nullopt).second) return false;
  highest_ = std::max(highest_, outbox_seq);
  if (answers_.size() > kMaxRemembered) answers_.erase(answers_.begin());
  return true;
}

void AssignmentLog::Answer(uint64_t outbox_seq, std::string refusal) {
  const auto it = answers_.find(outbox_seq);
  if (it != answers_.end()) it->second = std::move(refusal);
}

std::optional<std::string> AssignmentLog::AnswerOf(uint64_t outbox_seq) const {
  const auto it = answers_.find(outbox_seq);
  return it == answers_.end() ? std::nullopt : it->second;
}

}  // namespace muster::worker
