#include "tests/sim/queue_model.h"

#include <algorithm>

namespace muster::sim {
namespace {

using On = mc::SchedulingSettings::On;

// The scheduler decides on the clock's second and the applier a moment later.
constexpr absl::Duration kSlack = absl::Seconds(5);
// To see that a limit has passed, to save and to leave; a rank may be deaf to all but SIGKILL.
constexpr absl::Duration kTimeToLeave = absl::Minutes(3);

bool EndedAs(const mc::Job& job, On on) {
  switch (on) {
    case On::kSuccess:
      return job.state == mc::JobState::kSucceeded;
    case On::kFailure:
      return job.state == mc::JobState::kFailed || job.state == mc::JobState::kCancelled;
    case On::kEnd:
      return mc::IsTerminal(job.state);
  }
  return false;
}

}  // namespace

void QueueModel::OnSubmitted(uint64_t job_id, const mc::SchedulingSettings& asked,
                             const std::optional<mc::ArrayRange>& array) {
  if (!array.has_value()) {
    asked_.try_emplace(job_id, Asked{.scheduling = asked});
    return;
  }
  arrays_.try_emplace(job_id, *array);
  for (uint32_t i = 0; i < array->size(); ++i) {
    asked_.try_emplace(job_id + i,
                       Asked{.scheduling = asked, .array_id = job_id, .index = array->first + i});
  }
}

bool QueueModel::IsMet(const mc::Snapshot& snapshot,
                       const mc::SchedulingSettings::Dependency& other) const {
  const auto array = arrays_.find(other.job_id);
  const uint32_t jobs = array == arrays_.end() ? 1 : array->second.size();
  bool all_ended = true;
  bool any = false;
  bool all = true;
  for (uint32_t i = 0; i < jobs; ++i) {
    const mc::Job* job = snapshot.FindJob(other.job_id + i);
    if (job == nullptr) return false;
    all_ended &= mc::IsTerminal(job->state);
    any |= EndedAs(*job, other.on);
    all &= EndedAs(*job, other.on);
  }
  // An array fails with one of its jobs, and only when all have ended.
  return other.on == On::kFailure ? all_ended && any : all;
}

void QueueModel::CheckPlacement(const mc::Snapshot& snapshot, const mc::Snapshot& before,
                                const mc::Job& job, absl::Time now) const {
  const auto it = asked_.find(job.id);
  if (it == asked_.end()) return;  // its submit is not acknowledged yet
  const mc::SchedulingSettings& asked = it->second.scheduling;
  if (asked.begin >= now + absl::Milliseconds(1)) {  // the wire carries whole milliseconds
    trace_.Fail("job ", job.id, " was placed ", absl::FormatDuration(asked.begin - now),
                " before its time to begin");
  }
  if (asked.deadline + kSlack < now) {
    trace_.Fail("job ", job.id, " was placed after its deadline");
  }
  if (job.attempt > 1) return;  // it has waited for others once
  for (const mc::SchedulingSettings::Dependency& other : asked.after) {
    if (IsMet(snapshot, other) || IsMet(before, other)) continue;
    trace_.Fail("job ", job.id, " was placed, but job ", other.job_id,
                " has not ended as it wants (", static_cast<int>(other.on), ")");
  }
}

void QueueModel::Check(const mc::Snapshot& snapshot) const {
  CheckArrays(snapshot);
  for (const auto& [id, asked] : asked_) {
    const mc::Job* job = snapshot.FindJob(id);
    if (job == nullptr) return trace_.Fail("job ", id, " of a submit was acknowledged and is gone");
    if (job->array.array_id != asked.array_id || job->array.index != asked.index) {
      return trace_.Fail("job ", id, " is task ", job->array.index, " of array ",
                         job->array.array_id, ", not ", asked.index, " of ", asked.array_id);
    }
  }
}

void QueueModel::CheckArrays(const mc::Snapshot& snapshot) const {
  for (const auto& [id, array] : arrays_) {
    uint32_t live = 0;
    for (uint32_t i = 0; i < array.size(); ++i) {
      const mc::Job* job = snapshot.FindJob(id + i);
      live += job != nullptr && job->has_live_attempt();
    }
    if (array.at_a_time != 0 && live > array.at_a_time) {
      trace_.Fail(live, " jobs of array ", id, " run at a time; it allows ", array.at_a_time);
    }
  }
}

void QueueModel::CheckLimits(const mc::Snapshot& snapshot, absl::Time now) const {
  for (const auto& [id, asked] : asked_) {
    const mc::Job* job = snapshot.FindJob(id);
    if (job == nullptr || mc::IsTerminal(job->state)) continue;
    if (asked.scheduling.deadline + kTimeToLeave < now) {
      trace_.Fail("job ", id, " is ", mc::JobStateName(job->state), " long after its deadline");
    }
  }
}

}  // namespace muster::sim
