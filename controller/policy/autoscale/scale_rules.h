// How many workers a pool is to have, and who of them may go. Pure.
//
// More are asked for at once when jobs have lacked them for `patience`. One that held nothing for
// `idle_after` is first drained, so that nothing new comes there; only at a later look, when it is
// seen drained and still empty, the number goes down. What turns out to be needed again is
// undrained. A worker that a person drained is left alone.
#pragma once

#include "absl/time/time.h"
#include "controller/policy/autoscale/scale_types.h"

namespace muster::controller {

// At each look; `now` is since boot and does not fall. Who carries the decision out calls NoteAsked
// when the new number has been taken.
PoolDecision DecideScale(const PoolScaling& scaling, const PoolSight& sight, absl::Duration now,
                         PoolMemory& memory);
void NoteAsked(uint32_t wanted, absl::Duration now, PoolMemory& memory);

// How many workers of the pool may be counted on to come besides those that are there.
uint32_t RoomFor(const PoolScaling& scaling, size_t workers, absl::Duration now,
                 const PoolMemory& memory);

}  // namespace muster::controller
