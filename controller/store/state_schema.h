// The tables of state.db, one migration a version. A released migration never changes.
#pragma once

#include <string>
#include <vector>

namespace muster::controller {

std::vector<std::string> StateMigrations();

}  // namespace muster::controller
