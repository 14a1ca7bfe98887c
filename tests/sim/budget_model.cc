#include "tests/sim/budget_model.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "controller/policy/health/restart_rules.h"

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

// It could not use the job's checkpoints, which may be so on its machine alone.
bool BlamesCheckpoints(const mc::Attempt& attempt) {
  return attempt.failure_class == Class::kCheckpointFailed ||
         attempt.failure_class == Class::kCorruption;
}

// Leaves those workers that were in this attempt's gang, too.
void KeepCommon(const mc::Attempt& attempt, std::set<std::string>& workers) {
  std::erase_if(workers, [&](const std::string& name) {
    return std::none_of(attempt.ranks.begin(), attempt.ranks.end(),
                        [&](const mc::Rank& rank) { return rank.worker == name; });
  });
}

}  // namespace

void BudgetModel::CheckPlacement(const mc::Snapshot& snapshot, const mc::Job& job) const {
  const auto asked = asked_.find(job.id);
  if (asked == asked_.end() || job.past.empty()) return;
  const std::set<uint32_t> suspended = Suspended(job);
  uint32_t in_row = 0;
  std::set<std::string> blamers;  // workers of all attempts in the row that blame the checkpoints
  bool is_blamed = false;
  const auto begin_row = [&] {
    in_row = 0;
    is_blamed = false;
  };
  int64_t committed = -1;
  int64_t reached = 0;
  for (const auto& attempt : job.past) {
    if (attempt->number <= job.requeued_after) continue;
    const int64_t commit = CommittedBy(snapshot, job, attempt->number);
    if (commit > committed) begin_row();
    committed = std::max(committed, commit);
    const int64_t before = std::max(reached, attempt->first_step);
    if (committed < 0 && attempt->last_step > before) begin_row();
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
    if (BlamesCheckpoints(*attempt)) {
      if (!std::exchange(is_blamed, true)) {
        blamers.clear();
        for (const mc::Rank& rank : attempt->ranks) blamers.insert(rank.worker);
      }
      KeepCommon(*attempt, blamers);
    }
    const uint32_t may = asked->second.max_restarts;
    const bool on_one_machines_word = may > 0 && BlamesCheckpoints(*attempt) && !blamers.empty();
    if (++in_row > may + (on_one_machines_word ? mc::kMostRestartsBeyond : 0)) {
      return trace_.Fail("job ", job.id, " was restarted ", in_row,
                         " times in a row without getting further; it may be ", may, " times");
    }
  }
}

}  // namespace muster::sim
