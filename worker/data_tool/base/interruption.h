// Ctrl-C and SIGTERM as a flag that long work looks at, so that it ends in order and leaves nothing
// half-written.
//
// muster-data's main installs it; a second signal ends the process at once. Any thread may ask.
#pragma once

#include "absl/status/status.h"

namespace muster::worker {

void CatchInterrupts();
bool Interrupted();
// CANCELLED once there has been a signal.
absl::Status CheckInterrupted();

}  // namespace muster::worker
