// Every default of a spec, and nowhere else. Pure.
#pragma once

#include "muster/v1/job_spec.pb.h"

namespace muster {

// Fills what was not given, as job_spec.proto says; what was given stays. Idempotent. Not filled:
// what is required, the checkpoint url (the controller's own checkpoint_root, which it alone
// knows), and settings of another optimizer.
void FillDefaults(v1::JobSpec& spec);

}  // namespace muster
