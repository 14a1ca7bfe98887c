// The tables of history.db. Those of jobs have the columns that state.db's have, and more: a test
// holds that.
#pragma once

#include <string>
#include <vector>

namespace muster::controller {

std::vector<std::string> HistoryMigrations();

}  // namespace muster::controller
