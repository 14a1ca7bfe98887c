#include "controller/model/rank_origin.h"

namespace muster::controller {

bool WasPlacedOn(const Job& job, const RankKey& key, absl::string_view worker) {
  if (key.attempt == 0 || key.attempt > job.past.size() + 1) return false;
  const Attempt* attempt =
      key.attempt <= job.past.size() ? job.past[key.attempt - 1].get() : job.current.get();
  return attempt != nullptr && attempt->number == key.attempt &&
         attempt->generation == key.generation && key.rank < attempt->ranks.size() &&
         attempt->ranks[key.rank].worker == worker;
}

absl::StatusOr<bool> WasPlacedOn(const Snapshot& snapshot, History& history, const RankKey& key,
                                 absl::string_view worker) {
  if (const Job* job = snapshot.FindJob(key.job_id)) return WasPlacedOn(*job, key, worker);
  return snapshot.IsForgottenOrArchived(key.job_id) ? history.WasPlacedOn(key, worker) : false;
}

}  // namespace muster::controller
