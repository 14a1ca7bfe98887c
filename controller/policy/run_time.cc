#include "controller/policy/run_time.h"

#include <algorithm>

namespace muster::controller {
namespace {

absl::Duration SpentBefore(const Job& job) {
  absl::Duration spent;
  for (const auto& attempt : job.past) spent += attempt->ended - attempt->started;
  if (job.current != nullptr && !job.current->live()) {
    spent += job.current->ended - job.current->started;
  }
  return std::max(spent, absl::ZeroDuration());
}

}  // namespace

absl::Duration ExpectedRunTime(const Snapshot& snapshot, const JobSettings& settings) {
  const SchedulingSettings& scheduling = settings.scheduling;
  if (scheduling.expected_run_time > absl::ZeroDuration()) {
    return std::min(scheduling.expected_run_time, scheduling.max_run_time);
  }
  const LearnedRunTime* learned = snapshot.run_times.Find(RunTimeKey(settings));
  if (learned != nullptr) return std::min(learned->Longest(), scheduling.max_run_time);
  return scheduling.max_run_time;
}

absl::Duration ExpectedRunTimeLeft(const Snapshot& snapshot, const Job& job) {
  const absl::Duration whole = ExpectedRunTime(snapshot, *job.settings);
  if (whole == absl::InfiniteDuration()) return whole;
  return std::max(whole - SpentBefore(job), whole / 10);
}

absl::Time ExpectedEnd(const Snapshot& snapshot, const Job& job, absl::Time now) {
  if (job.state == JobState::kRecovering || job.state == JobState::kStopping) return now;
  const absl::Time end = job.current->started + ExpectedRunTimeLeft(snapshot, job);
  if (end > now) return end;
  const absl::Duration limit = job.settings->scheduling.max_run_time;
  if (limit == absl::InfiniteDuration()) return absl::InfiniteFuture();
  return std::max(now, job.current->started + limit - SpentBefore(job));
}

}  // namespace muster::controller
