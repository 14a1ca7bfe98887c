#include "tests/sim/run_times.h"

#include <algorithm>

namespace muster::sim {
namespace {

constexpr absl::Duration kRunTimeSlack = absl::Seconds(2);
// To see that a limit has passed, to save and to leave; a rank may be deaf to all but SIGKILL.
constexpr absl::Duration kLongestLeave = absl::Minutes(3);

// Whether the job was told now that its run time is over.
bool IsStoppedNow(const mc::Job& job, const mc::Job& before) {
  if (job.events.size() == before.events.size()) return false;
  const bool limited = job.settings->scheduling.max_run_time != absl::InfiniteDuration() &&
                       job.settings->scheduling.deadline == absl::InfiniteFuture();
  return limited &&
         std::any_of(job.events.begin() + static_cast<ptrdiff_t>(before.events.size()),
                     job.events.end(), [](const std::shared_ptr<const mc::JobEvent>& event) {
                       return event->reason == mc::Reason::kTimeLimitReached;
                     });
}

}  // namespace

void RunTimes::Note(const mc::Attempt& attempt, bool exact, absl::Duration now) {
  const auto [it, is_new] = seen_.try_emplace({attempt.job_id, attempt.number}, Seen{.from = now});
  Seen& seen = it->second;
  if (is_new) seen.exact = exact;
  if (attempt.live() || seen.until != absl::InfiniteDuration()) return;
  seen.until = now;
  seen.exact = seen.exact && exact;
}

void RunTimes::OnPublished(const mc::Snapshot& snapshot, const mc::Snapshot* before,
                           absl::Duration now) {
  static const mc::Snapshot nothing;
  const mc::Snapshot& last = before == nullptr ? nothing : *before;
  snapshot.jobs.ForEachChange(last.jobs, [&](uint64_t, const mc::Job* old, const mc::Job* row) {
    if (row == nullptr) return;
    const mc::Job& job = *row;
    for (const auto& attempt : job.past) Note(*attempt, before != nullptr, now);
    if (job.current != nullptr) Note(*job.current, before != nullptr, now);
    if (old == nullptr || !IsStoppedNow(job, *old) || !IsExact(job)) return;
    const absl::Duration most = job.settings->scheduling.max_run_time;
    if (const absl::Duration ran = Ran(job, now); ran + kRunTimeSlack < most) {
      trace_.Fail("job ", job.id, " was stopped after ", absl::FormatDuration(ran),
                  "; it may run for ", absl::FormatDuration(most));
    }
  });
}

void RunTimes::CheckEnded(const mc::Snapshot& snapshot, absl::Duration now) const {
  snapshot.jobs.ForEach([&](const mc::Job& job) {
    if (mc::IsTerminal(job.state) || job.current == nullptr) return;
    const absl::Duration most = job.settings->scheduling.max_run_time;
    if (const absl::Duration ran = Ran(job, now); ran > most + kLongestLeave) {
      trace_.Fail("job ", job.id, " runs for ", absl::FormatDuration(ran), "; it may for ",
                  absl::FormatDuration(most));
    }
  });
}

absl::Duration RunTimes::Ran(const mc::Job& job, absl::Duration now) const {
  absl::Duration ran;
  for (uint32_t number = job.requeued_after + 1; number <= job.attempt; ++number) {
    const auto it = seen_.find({job.id, number});
    if (it != seen_.end()) ran += std::min(it->second.until, now) - it->second.from;
  }
  return ran;
}

bool RunTimes::IsExact(const mc::Job& job) const {
  for (uint32_t number = job.requeued_after + 1; number <= job.attempt; ++number) {
    const auto it = seen_.find({job.id, number});
    if (it == seen_.end() || !it->second.exact) return false;
  }
  return true;
}

}  // namespace muster::sim
