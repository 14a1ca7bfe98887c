#include "tests/sim/preemption_check.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster::sim {
namespace {

std::string WhoTakesWork(const mc::Snapshot& snapshot) {
  std::string text;
  snapshot.workers.ForEach([&text](const mc::Worker& worker) {
    absl::StrAppend(&text, worker.name, " ", mc::WorkerStateName(worker), worker.pulse.connected,
                    " ", worker.facts.slots.size(), ";");
  });
  return text;
}

// A program that reports no steps: nobody knows whether it gets on.
bool IsSilent(const mc::Job& job) { return absl::StrContains(job.settings->spec, "\"command\""); }

// As its restart budget allows: what costs none of it may happen again and again.
bool ComesBackFromFailure(const mc::Job& job) {
  if (job.current == nullptr) return false;
  const mc::FailureClass failure = job.current->failure_class;
  return failure != mc::FailureClass::kNone && failure != mc::FailureClass::kPreempted &&
         failure != mc::FailureClass::kStorageUnavailable;
}

}  // namespace

void PreemptionCheck::OnPublished(const mc::Snapshot& snapshot, const mc::Snapshot* before) {
  uint64_t moved = 0;  // the job that has new events; 0: none, ~0: several
  snapshot.jobs.ForEach([&](const mc::Job& job) {
    if (job.events.size() > past_[job.id].events) moved = moved == 0 ? job.id : ~uint64_t{0};
  });
  std::string workers = WhoTakesWork(snapshot);
  const bool all_move = before == nullptr || workers != workers_ || moved == ~uint64_t{0};
  workers_ = std::move(workers);
  snapshot.jobs.ForEach([&](const mc::Job& job) {
    Past& past = past_[job.id];
    if (all_move || (moved != 0 && moved != job.id)) past.others_moved = true;
    int64_t step = 0;
    if (job.current != nullptr) step = std::max(job.current->last_step, job.progress.step);
    if (step > past.best_step) {
      past.best_step = step;
      past.in_vain = 0;
    }
    if (job.attempt > past.attempt) OnPlaced(past, job);
    for (; past.events < job.events.size(); ++past.events) {
      OnEvent(snapshot, before, job, *job.events[past.events]);
    }
  });
}

void PreemptionCheck::OnEvent(const mc::Snapshot& snapshot, const mc::Snapshot* before,
                              const mc::Job& job, const mc::JobEvent& event) {
  const bool preempts = event.reason == mc::Reason::kPreemptedByJob;
  if (event.from == event.to || (!preempts && event.reason != mc::Reason::kResized)) return;
  const mc::Attempt* attempt = mc::FindAttempt(job, event.attempt);
  if (attempt == nullptr) return trace_.Fail("job ", job.id, ": no attempt ", event.attempt);
  Past& past = past_[job.id];
  const uint64_t other = attempt->preempted_by;
  const mc::Job* winner = snapshot.FindJob(other);
  OnStopped(past, job, winner);
  if (!preempts && other == 0) {
    ++counts_.grown;
    past.ranks_when_grown = attempt->ranks.size();
    past.others_moved = false;
    return;
  }
  ++(preempts ? counts_.preempted : counts_.shrunk);
  CheckPriorities(snapshot, before, job, other, /*equal_will_do=*/!preempts);
  if (winner == nullptr) return;
  const auto [it, first] = made_way_.emplace(std::make_pair(job.id, other), winner->attempt);
  if (!first && it->second == winner->attempt) {
    trace_.Fail("job ", job.id, " makes way for job ", other,
                " again, which was not placed since it did so before");
  }
  it->second = winner->attempt;
}

void PreemptionCheck::OnStopped(Past& past, const mc::Job& job, const mc::Job* winner) {
  if (IsSilent(job) || (winner != nullptr && ComesBackFromFailure(*winner))) return;
  counts_.most_in_vain = std::max(counts_.most_in_vain, ++past.in_vain);
  if (past.in_vain > kMostInVain) {
    trace_.Fail("job ", job.id, " was stopped ", past.in_vain,
                " times in a row without a step done between, for others or to grow");
  }
}

void PreemptionCheck::OnPlaced(Past& past, const mc::Job& job) {
  past.attempt = job.attempt;
  const uint32_t had = std::exchange(past.ranks_when_grown, 0);
  if (had == 0 || job.current == nullptr) return;
  if (job.current->ranks.size() > had) {
    ++counts_.came_back_larger;
    past.growth_in_vain = 0;
  } else if (!past.others_moved && ++past.growth_in_vain > kMostGrowthInVain) {
    trace_.Fail("job ", job.id, " was stopped to grow ", past.growth_in_vain,
                " times in a row and came back with ", job.current->ranks.size(), " of ", had,
                " ranks");
  }
}

void PreemptionCheck::CheckPriorities(const mc::Snapshot& snapshot, const mc::Snapshot* before,
                                      const mc::Job& job, uint64_t other, bool equal_will_do) {
  const auto is_right = [&](const mc::Snapshot& version) {
    const mc::Job* loser = version.FindJob(job.id);
    const mc::Job* winner = version.FindJob(other);
    if (loser == nullptr || winner == nullptr) return false;
    const int32_t lead = winner->settings->priority - loser->settings->priority;
    return lead > 0 || (equal_will_do && lead == 0);
  };
  // Somebody may have changed a priority in the same step.
  if (is_right(snapshot) || (before != nullptr && is_right(*before))) return;
  trace_.Fail("job ", job.id, " makes way for job ", other, ", which is of no higher priority");
}

}  // namespace muster::sim
