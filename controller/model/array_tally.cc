#include "controller/model/array_tally.h"

#include "absl/strings/str_cat.h"
#include "controller/model/job_state.h"
#include "controller/model/snapshot.h"

namespace muster::controller {
namespace {

enum class Standing : uint8_t { kNone, kOpen, kSucceeded, kFailed };

Standing StandingOf(const Job* job) {
  if (job == nullptr) return Standing::kNone;
  if (!IsTerminal(job->state)) return Standing::kOpen;
  return job->state == JobState::kSucceeded ? Standing::kSucceeded : Standing::kFailed;
}

}  // namespace

std::string ArrayKey(uint64_t array_id) { return absl::StrCat(array_id); }

uint64_t ArrayTallies::NextEnded(uint64_t array_id, uint64_t id, bool succeeded) const {
  const Standing wanted = succeeded ? Standing::kSucceeded : Standing::kFailed;
  // The tasks of an array have the ids after its first one.
  for (uint64_t next = id + 1;; ++next) {
    const Job* task = snapshot_.FindJob(next);
    if (task == nullptr || task->array.array_id != array_id) return 0;
    if (StandingOf(task) == wanted) return next;
  }
}

ArrayTally& ArrayTallies::Edit(uint64_t array_id) {
  const auto [it, fresh] = changed_.try_emplace(array_id);
  if (fresh) {
    const ArrayTally* known = snapshot_.arrays.Find(ArrayKey(array_id));
    if (known != nullptr) it->second = *known;
  }
  return it->second;
}

void ArrayTallies::Forget(const Job& job) {
  const uint64_t array = job.array.array_id;
  if (array == 0) return;
  ArrayTally& tally = Edit(array);
  if (job.state == JobState::kSucceeded) {
    --tally.succeeded;
    if (job.id == tally.first_succeeded) tally.first_succeeded = NextEnded(array, job.id, true);
  } else {
    --tally.failed;
    if (job.id == tally.first_failed) tally.first_failed = NextEnded(array, job.id, false);
  }
}

void ArrayTallies::Count(const Job* before, const Job& after) {
  const uint64_t array = after.array.array_id;
  if (array == 0) return;
  const Standing was = StandingOf(before);
  const Standing is = StandingOf(&after);
  if (was == is) return;
  ArrayTally& tally = Edit(array);
  if (was == Standing::kOpen) --tally.open;
  if (was == Standing::kSucceeded) --tally.succeeded;
  if (was == Standing::kFailed) --tally.failed;
  // One that had ended runs again.
  if (after.id == tally.first_succeeded) {
    tally.first_succeeded = NextEnded(array, after.id, /*succeeded=*/true);
  }
  if (after.id == tally.first_failed) {
    tally.first_failed = NextEnded(array, after.id, /*succeeded=*/false);
  }
  const auto first = [&](uint64_t& id) {
    if (id == 0 || after.id < id) id = after.id;
  };
  if (is == Standing::kOpen) ++tally.open;
  if (is == Standing::kSucceeded) {
    ++tally.succeeded;
    first(tally.first_succeeded);
  }
  if (is == Standing::kFailed) {
    ++tally.failed;
    first(tally.first_failed);
  }
}

ArrayTallies::~ArrayTallies() {
  for (const auto& [array, tally] : changed_) {
    if (tally == ArrayTally()) {
      snapshot_.arrays.Erase(ArrayKey(array));
    } else {
      snapshot_.arrays.Put(ArrayKey(array), tally);
    }
  }
}

}  // namespace muster::controller
