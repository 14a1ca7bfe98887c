#include "controller/model/rank_origin.h"

namespace muster::controller {

bool WasPlacedOn(const Snapshot& snapshot, const RankKey& key, absl::string_view worker) {
  const Job* job = snapshot.FindJob(key.job_id);
  if (job == nullptr || key.attempt == 0 || key.attempt > job->past.size() + 1) return false;
  const Attempt* attempt =
      key.attempt <= job->past.size() ? job->past[key.attempt - 1].get() : job->current.get();
  return attempt != nullptr && attempt->number == key.attempt &&
         attempt->generation == key.generation && key.rank < attempt->ranks.size() &&
         attempt->ranks[key.rank].worker == worker;
}

}  // namespace muster::controller
