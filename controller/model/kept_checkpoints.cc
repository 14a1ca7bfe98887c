#include "controller/model/kept_checkpoints.h"

#include <algorithm>
#include <cstddef>

namespace muster::controller {

bool Newer(const Checkpoint* a, const Checkpoint* b) {
  return a->step != b->step ? a->step > b->step : a->id > b->id;
}

std::vector<const Checkpoint*> LetGo(const Snapshot& snapshot, const Job& job) {
  const size_t keep_last = job.settings->keep_last;
  std::vector<const Checkpoint*> present;
  std::vector<const Checkpoint*> verified;
  const Checkpoint* best = nullptr;           // the newest, which may not have been reread yet
  const Checkpoint* verified_best = nullptr;  // the newest of which it is known that it is whole
  for (uint64_t id : job.checkpoints) {
    const Checkpoint* checkpoint = snapshot.FindCheckpoint(id);
    if (!checkpoint->on_disk()) continue;
    present.push_back(checkpoint);
    // One that goes is not counted among those that are kept.
    if (!checkpoint->removed_by.empty()) continue;
    // One that somebody could not read since is not counted on, until it was read again.
    const bool whole =
        checkpoint->state == CheckpointState::kVerified && !checkpoint->doubt.has_value();
    if (whole) verified.push_back(checkpoint);
    if (!checkpoint->restorable() || !checkpoint->best) continue;
    if (best == nullptr || Newer(checkpoint, best)) best = checkpoint;
    if (whole && (verified_best == nullptr || Newer(checkpoint, verified_best))) {
      verified_best = checkpoint;
    }
  }
  const bool enough = verified.size() >= keep_last;
  const Checkpoint* oldest_kept = nullptr;
  if (enough && keep_last > 0) {
    const auto last = verified.begin() + static_cast<std::ptrdiff_t>(keep_last - 1);
    std::nth_element(verified.begin(), last, verified.end(), Newer);
    oldest_kept = *last;
  }
  std::vector<const Checkpoint*> going;
  for (const Checkpoint* checkpoint : present) {
    if (!checkpoint->pinned_by.empty()) continue;
    const bool older = enough && (oldest_kept == nullptr || Newer(oldest_kept, checkpoint));
    const bool is_best = checkpoint == best || checkpoint == verified_best;
    if (!checkpoint->removed_by.empty() || (older && !is_best)) going.push_back(checkpoint);
  }
  return going;
}

}  // namespace muster::controller
