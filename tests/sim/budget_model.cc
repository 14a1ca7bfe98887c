#include "tests/sim/budget_model.h"

#include <algorithm>
#include <set>

namespace muster::sim {
namespace {

using Class = mc::FailureClass;

// Attempts that ended because somebody wanted the job suspended: what follows is a resume.
std::set<uint32_t> Suspended(const mc::Job& job) {
  std::set<uint32_t> attempts;
  for (const auto& event : job.events) {
    if (event->reason == mc::Reason::kSuspendDone) attempts.insert(event->attempt);
  }
  return attempts;
}

// The highest step that the attempt committed; -1: none. A row without a path was never committed.
int64_t CommittedBy(const mc::Snapshot& snapshot, const mc::Job& job, uint32_t attempt) {
  int64_t highest = -1;
  for (const uint64_t id : job.checkpoints) {
    const mc::Checkpoint& row = *snapshot.FindCheckpoint(id);
    if (row.attempt == attempt && !row.path.empty()) highest = std::max(highest, row.step);
  }
  return highest;
}

}  // namespace

void BudgetModel::CheckPlacement(const mc::Snapshot& snapshot, const mc::Job& job) const {
  const auto asked = asked_.find(job.id);
  if (asked == asked_.end() || job.past.empty()) return;
  const std::set<uint32_t> suspended = Suspended(job);
  uint32_t in_row = 0;
  int64_t committed = -1;
  int64_t reached = 0;
  for (const auto& attempt : job.past) {
    if (attempt->number <= job.requeued_after) continue;
    const int64_t commit = CommittedBy(snapshot, job, attempt->number);
    if (commit > committed) in_row = 0;
    committed = std::max(committed, commit);
    const int64_t before = std::max(reached, attempt->first_step);
    if (committed < 0 && attempt->last_step > before) in_row = 0;
    reached = std::max(reached, attempt->last_step);
    const bool free = attempt->failure_class == Class::kPreempted ||
                      attempt->failure_class == Class::kStorageUnavailable;
    if (free || suspended.count(attempt->number) != 0) continue;
    const bool hopeless = attempt->failure_class == Class::kOutOfMemory ||
                          attempt->failure_class == Class::kDataError;
    if (hopeless) {
      return trace_.Fail("job ", job.id, " was tried again after ",
                         mc::FailureClassName(attempt->failure_class));
    }
    if (++in_row > asked->second.max_restarts) {
      return trace_.Fail("job ", job.id, " was restarted ", in_row,
                         " times in a row without getting further; it may be ",
                         asked->second.max_restarts, " times");
    }
  }
}

}  // namespace muster::sim
