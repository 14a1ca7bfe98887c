// Which planted bug is active. Each NAME.patch beside this file adds one to the product's sources,
// under the condition Planted("NAME"); where they are applied, the compiler includes this header in
// every source.
#pragma once

#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Empty: none. At first the one that MUSTER_PLANTED_BUG in the environment names.
inline std::string& ActivePlantedBug() {
  static std::string active = [] {
    const char* name = std::getenv("MUSTER_PLANTED_BUG");
    return std::string(name == nullptr ? "" : name);
  }();
  return active;
}

inline bool Planted(absl::string_view name) { return ActivePlantedBug() == name; }

}  // namespace muster
