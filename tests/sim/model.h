// What the controller has promised, as its clients understood it: a small model that is fed with
// acknowledgements only and knows none of the controller's code.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "controller/model/snapshot.h"
#include "tests/sim/budget_model.h"
#include "tests/sim/queue_model.h"
#include "tests/sim/storage.h"
#include "tests/sim/trace.h"

namespace muster::sim {

namespace mc = ::muster::controller;

class Model {
 public:
  Model(Trace& trace, const Storage& storage)
      : trace_(trace), storage_(storage), queue_(trace), budgets_(trace) {}

  using Key = std::pair<std::string, std::string>;  // owner, idempotency key
  void OnSubmitted(const Key& key, const mc::JobSettings& settings,
                   const std::optional<mc::ArrayRange>& array, uint64_t job_id);
  void OnCancelled(uint64_t job_id);
  // Held or suspended while `attempt` was its newest; and no longer.
  void OnHeld(uint64_t job_id, uint32_t attempt) { held_[job_id] = attempt; }
  void OnMayStart(uint64_t job_id) { held_.erase(job_id); }
  void OnCordoned(const std::string& worker, bool cordoned);
  // Of a project, and of each of its users.
  struct Quotas {
    uint32_t slots = 0;
    uint32_t slots_of_user = 0;
    std::optional<uint32_t> queued;  // nullopt: no bound
    std::optional<uint32_t> queued_of_user;
  };
  // Somebody asks for them: they, or those before, may hold. Then they do.
  void OnQuotasAsked(const std::string& project, const Quotas& quotas);
  void OnQuotas(const std::string& project, const Quotas& quotas);
  // A rank was told that its checkpoint is committed.
  void OnCommitted(uint64_t job_id, uint32_t attempt, int64_t step);
  void OnTerm(const std::string& machine, uint64_t term);
  void OnRankSucceeded(uint64_t job_id, uint32_t attempt, uint32_t rank);

  // A gang was placed at `now`, by the controller's clock.
  void CheckPlacement(const mc::Snapshot& snapshot, const mc::Snapshot& before, const mc::Job& job,
                      absl::Time now) const;
  // Who lets jobs into the queue (a submit, a requeue, a resume) looks at its bounds.
  void CheckQueued(const mc::Snapshot& snapshot, const mc::Snapshot& before) const;
  // Holds what is published against what was promised.
  void Check(const mc::Snapshot& snapshot);
  // Once everything has healed.
  void CheckLimits(const mc::Snapshot& snapshot, absl::Time now) const {
    queue_.CheckLimits(snapshot, now);
  }
  // The newest step of the job that was called committed and that can still be read; 0: none.
  int64_t NewestPromisedStep(const mc::Snapshot& snapshot, uint64_t job_id) const;
  size_t jobs() const { return jobs_; }
  uint64_t term() const { return term_; }

 private:
  struct Submit {
    std::string spec;
    uint64_t job_id = 0;
    uint32_t jobs = 1;
  };
  struct Commit {
    uint64_t job_id = 0;
    uint32_t attempt = 0;
    int64_t step = 0;
    auto operator<=>(const Commit&) const = default;
  };
  const mc::Checkpoint* FindRow(const mc::Snapshot& snapshot, const Commit& commit) const;
  void CheckSlotQuotas(const mc::Snapshot& snapshot);
  void CheckCommits(const mc::Snapshot& snapshot) const;
  void CheckSuccess(const mc::Job& job) const;

  Trace& trace_;
  const Storage& storage_;
  QueueModel queue_;
  BudgetModel budgets_;
  size_t jobs_ = 0;
  std::map<Key, Submit> submits_;
  std::map<uint64_t, Key> keys_;
  std::set<uint64_t> cancels_;
  std::map<uint64_t, uint32_t> held_;
  std::set<std::string> cordoned_;
  std::map<std::string, std::vector<Quotas>> quotas_;  // that may hold, by project
  // Slots that are held, by project and user (none: of all).
  std::map<std::pair<std::string, std::string>, uint32_t> slots_held_;
  std::set<Commit> commits_;
  std::set<std::tuple<uint64_t, uint32_t, uint32_t>> succeeded_;  // job, attempt, rank
  uint64_t term_ = 0;                                             // the highest of all
  std::map<std::string, uint64_t> terms_;
};

}  // namespace muster::sim
