// Snapshots for the tests of the policies, put together by hand.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "controller/model/draft.h"

namespace muster::controller {

class World {
 public:
  // Ledger time is that plus the time since boot.
  explicit World(absl::Time ledger_origin = absl::UnixEpoch()) : draft_(Empty(ledger_origin)) {}

  Worker& AddWorker(const std::string& name, uint32_t slots, SlotKind kind = SlotKind::kCpu,
                    const std::string& pool = "default") {
    Worker worker;
    worker.name = name;
    worker.pulse.connected = true;
    worker.facts.pool = pool;
    for (uint32_t i = 0; i < slots; ++i) {
      worker.facts.slots.push_back(
          {.index = i, .kind = kind, .device = "", .uuid = "", .memory_bytes = 0});
    }
    return draft_.AddWorker(std::move(worker));
  }

  static JobSettings Settings(uint32_t min, uint32_t max = 0) {
    JobSettings settings;
    settings.needs.min_ranks = min;
    settings.needs.max_ranks = max == 0 ? min : max;
    settings.needs.pools = {{"default", {}}};
    settings.restart = {.max_restarts = 3,
                        .budgets = {},
                        .backoff = absl::Seconds(1),
                        .max_backoff = absl::Seconds(10),
                        .progress_timeout = absl::Minutes(10)};
    return settings;
  }

  Job& AddJob(JobSettings settings) {
    Job job;
    job.settings = std::make_shared<const JobSettings>(std::move(settings));
    Job& added = draft_.AddJob(std::move(job));
    draft_.EditJob(added.id);
    return added;
  }

  // A live attempt, one rank a worker named.
  void Place(uint64_t job_id, std::initializer_list<std::string> workers, JobState state) {
    Attempt attempt;
    attempt.number = draft_.view().FindJob(job_id)->attempt + 1;
    for (const std::string& worker : workers) {
      Rank rank;
      rank.rank = attempt.ranks.size();
      rank.worker = worker;
      attempt.ranks.push_back(std::move(rank));
    }
    draft_.AddAttempt(job_id, std::move(attempt));
    draft_.EditJob(job_id).state = state;
  }

  Draft& draft() { return draft_; }
  const Snapshot& view() {
    draft_.RebuildJobLists();
    return draft_.view();
  }

 private:
  static Snapshot Empty(absl::Time ledger_origin) {
    Snapshot snapshot;
    snapshot.ledger_origin = ledger_origin;
    return snapshot;
  }

  Draft draft_;
};

}  // namespace muster::controller
