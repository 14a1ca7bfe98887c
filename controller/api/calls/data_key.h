// Names the data of a training job, so that workers look at them once for all jobs that read the
// same. Pure.
#pragma once

#include <string>

#include "muster/v1/job_spec.pb.h"

namespace muster::controller {

// A hash, 64 hex digits, of the settings that `muster-data preflight` checks, so that jobs with
// equal keys share one check. Empty: the job has no files that could be checked.
std::string DataKeyOf(const v1::Train& train);

}  // namespace muster::controller
