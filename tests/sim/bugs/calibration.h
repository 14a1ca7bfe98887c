// How good is the simulator? Each planted bug is hunted with fresh seeds; the table says after how
// many it was found, and by which promise.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::sim {

// Prints the table of docs/simulation.md. 1 when one of the bugs was not found within `most` seeds.
int Calibrate(const std::vector<std::string>& bugs, uint64_t most);

}  // namespace muster::sim
