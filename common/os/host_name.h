// What this machine is called.
#pragma once

#include <string>

namespace muster {

// As it was set, perhaps with its domain; empty: it has none.
std::string HostName();

}  // namespace muster
