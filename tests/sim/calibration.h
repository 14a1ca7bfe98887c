// How good is the simulator? Each planted bug is hunted with fresh seeds; the table says after how
// many it was found, and by which promise.
#pragma once

#include <cstdint>

namespace muster::sim {

// Prints the table of docs/simulation.md. 1 when a bug was not found within `most` seeds.
int Calibrate(uint64_t most);

}  // namespace muster::sim
