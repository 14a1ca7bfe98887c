// What ExplainJob and a dry run answer. Pure.
#pragma once

#include "controller/model/snapshot.h"
#include "controller/model/types/explanation_types.h"
#include "muster/v1/job_service.pb.h"

namespace muster::controller {

// Jobs that are no longer in the snapshot are left without a name.
v1::Outlook ToProto(const Snapshot& snapshot, const Explanation& explanation);

}  // namespace muster::controller
