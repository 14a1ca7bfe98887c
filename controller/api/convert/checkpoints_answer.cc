#include "controller/api/convert/checkpoints_answer.h"

#include <utility>

#include "controller/api/convert/convert.h"
#include "controller/api/convert/pages.h"

namespace muster::controller {

bool WasEverThere(const Checkpoint& checkpoint) {
  return checkpoint.state != CheckpointState::kDeleted || !checkpoint.path.empty();
}

uint64_t FillCheckpoints(const Snapshot& snapshot, const Job& job, uint64_t below, size_t bytes,
                         google::protobuf::RepeatedPtrField<v1::CheckpointInfo>* out) {
  PageBytes page(bytes);
  for (auto id = job.checkpoints.rbegin(); id != job.checkpoints.rend(); ++id) {
    const Checkpoint* checkpoint = snapshot.FindCheckpoint(*id);
    if (checkpoint == nullptr || (below != 0 && *id >= below)) continue;
    if (!WasEverThere(*checkpoint)) continue;
    v1::CheckpointInfo info = ToProto(*checkpoint);
    if (!page.Take(info.ByteSizeLong())) return *id + 1;
    *out->Add() = std::move(info);
  }
  return 0;
}

}  // namespace muster::controller
