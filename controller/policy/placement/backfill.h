// Slots reserved for jobs that come first and cannot start yet, and who may use them meanwhile.
// Pure.
//
// The first job of a partition that does not fit there gets a reservation: the moment at
// which, by the run times that are known, enough slots will have come free, and the slots that it
// will take then. Those of them that are free now are taken out of the index; a later job may start
// on what is left, or on reserved slots if it will have ended by then. So that job starts no later
// than it would if nobody passed it. When nobody can tell how long the running jobs will take, it
// could start at any moment, and everything that it could use is reserved.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "controller/policy/placement/demand.h"
#include "controller/policy/placement/placement.h"
#include "controller/policy/placement/worker_index.h"

namespace muster::controller {

// A running gang's share of one worker, and when it will be given back.
struct Release {
  absl::Time at;
  uint64_t job_id = 0;
  Grant grant;  // `slots` of the partition's kind
};

// Slots that are reserved: taken out of the index.
struct ReservedSlots {
  uint64_t for_job = 0;
  absl::Time until;  // who ends by then may use them; InfinitePast: nobody
  SlotKind kind = SlotKind::kCpu;
  std::vector<Grant> grants;
};

struct Reservation {
  absl::Time start = absl::InfiniteFuture();  // infinite: nobody can tell
  ReservedSlots reserved_slots;
};

// Works out when and where the gang of `demand` can start in the partition, given what comes free
// (`releases` by time, those that never end left out), not before `earliest`, and takes what it
// needs of the slots that are free now out of the index. Requires that it does not fit now, or not
// before `earliest`.
Reservation Reserve(WorkerIndex& index, int partition, Demand& demand, absl::Time earliest,
                    const std::vector<Release>& releases);

}  // namespace muster::controller
