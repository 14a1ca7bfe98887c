// Checkpoints of a job, as answers show them.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <cstddef>
#include <cstdint>

#include "controller/model/snapshot.h"
#include "muster/v1/job_service.pb.h"

namespace muster::controller {

// One that was offered and refused, or never finished, has never been there.
bool WasEverThere(const Checkpoint& checkpoint);

// Those below `below` (0: all), newest first, within so many bytes; the id below which the next
// page goes on, 0: none.
uint64_t FillCheckpoints(const Snapshot& snapshot, const Job& job, uint64_t below, size_t bytes,
                         google::protobuf::RepeatedPtrField<v1::CheckpointInfo>* out);

}  // namespace muster::controller
