// Names of temporary files in folders that several machines may share, as a home on NFS: no two
// processes of any machines give one twice. Thread-safe.
#pragma once

#include <string>

namespace muster {

// What the names that this machine gives in this boot begin with: eight characters and a '-'.
// Containers of a machine share it, as they share the kernel.
std::string MachinePrefix();

// MachinePrefix, the process and 64 random bits; only [0-9a-z-].
std::string UniqueName();

}  // namespace muster
