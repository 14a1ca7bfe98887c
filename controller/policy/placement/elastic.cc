#include "controller/policy/placement/elastic.h"

#include "controller/model/ledger_rules.h"
#include "controller/policy/placement/preemption.h"

namespace muster::controller {
namespace {

bool Runs(const Job& job) {
  return job.state == JobState::kRunning && job.has_live_attempt() && !job.current->save_requested;
}

}  // namespace

bool MayGrow(const Job& job) {
  return Runs(job) && job.settings->scheduling.preemptible &&
         job.current->ranks.size() < job.settings->needs.max_ranks;
}

bool MayShrink(const Job& job) {
  return Runs(job) && job.settings->scheduling.preemptible &&
         job.current->ranks.size() > job.settings->needs.min_ranks;
}

bool ShrinksFor(const Snapshot& snapshot, const Job& job, int32_t priority,
                const ElasticSettings& settings, absl::Time now) {
  if (priority != job.settings->priority) return priority > job.settings->priority;
  return now - HeldFrom(*job.current) >= settings.shrink_after &&
         SavedUpTo(snapshot, job) != absl::InfinitePast();
}

absl::Duration TimeLeft(const Job& job, absl::Time now) {
  const absl::Duration age = now - HeldFrom(*job.current);
  const JobProgress& progress = job.progress;
  const int64_t done = progress.step - job.current->first_step;
  if (progress.total_steps <= 0 || done <= 0) return age;
  return age *
         (static_cast<double>(progress.total_steps - progress.step) / static_cast<double>(done));
}

bool IsWorthGrowing(const Snapshot& snapshot, const Job& job, uint32_t ranks,
                    const ElasticSettings& settings, absl::Time now) {
  const auto has = static_cast<double>(job.current->ranks.size());
  if (now - HeldFrom(*job.current) < settings.grow_after) return false;
  if (ranks < has * (1 + settings.grow_gain)) return false;
  // It may be one that cannot save when it is asked to: what it has not saved is done once more.
  const absl::Time saved_up_to = SavedUpTo(snapshot, job);
  if (saved_up_to == absl::InfinitePast()) return false;
  // With n times the ranks the rest takes an n-th of the time, at best.
  const absl::Duration gained = TimeLeft(job, now) * (1 - has / ranks);
  return gained - (now - saved_up_to) > 2 * settings.restart_cost;
}

}  // namespace muster::controller
