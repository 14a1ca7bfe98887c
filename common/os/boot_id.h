// Which boot of which kernel this is. Clocks that count since boot agree in one boot, and processes
// that share memory are in one. Thread-safe.
#pragma once

#include <string>

namespace muster {

// The kernel's random id of this boot; empty: the kernel does not say.
std::string BootId();

}  // namespace muster
