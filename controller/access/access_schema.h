// The tables of access.db, one migration a version. A released migration never changes.
#pragma once

#include <string>
#include <vector>

namespace muster::controller {

std::vector<std::string> AccessMigrations();

}  // namespace muster::controller
