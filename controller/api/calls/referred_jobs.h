// The jobs that a submit begins from or waits for: found, and read by who submits.
#pragma once

#include "absl/status/status.h"
#include "controller/api/calls/known_jobs.h"
#include "controller/api/calls/service_call.h"
#include "controller/model/types/events.h"

namespace muster::controller {

// As KnownJobs::LoadReferred; besides NOT_FOUND: one is not there, or is of a project that `caller`
// does not read. A name that it begins from becomes the id of the job that it stands for.
absl::Status LoadReadable(CallGate& gate, const Caller& caller, KnownJobs& jobs, SubmitJob& event);

}  // namespace muster::controller
