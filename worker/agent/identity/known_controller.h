// The controller that an agent of a data folder has spoken to last.
#pragma once

#include <cstdint>
#include <string>

namespace muster::worker {

struct KnownController {
  std::string id;     // Welcome.controller_id; empty: none is known, or it did not say
  uint64_t term = 0;  // the highest of it that was seen
  bool operator==(const KnownController&) const = default;
};

}  // namespace muster::worker
