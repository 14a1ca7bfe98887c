// Asks the kernel where this agent runs: on which machine, in which boot and PID namespace, on
// which data folder. Calls the system.
#pragma once

#include <string>

#include "worker/agent/identity/identity.h"

namespace muster::worker {

// `data_dir` exists. Clones of an image differ in their hardware's addresses, its product UUID or
// the host's name, as far as these can be read; what cannot be told apart here is by its place, of
// which no two kernels, namespaces and folders that live at one time have the same.
Surroundings ReadSurroundings(const std::string& data_dir);

}  // namespace muster::worker
