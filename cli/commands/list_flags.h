// --columns, --sort and --filter of the verbs that print a list.
#pragma once

#include <CLI/App.hpp>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cli/output/list_view.h"
#include "cli/session/cli_session.h"

namespace muster::cli {

void AddListFlags(CLI::App& command, ListRequest& request);
// Of what comes line by line, and is therefore in its own order.
void AddFilterFlag(CLI::App& command, ListRequest& request);

// Columns of the wide table may be asked for, whatever -o says.
bool NeedsWideTable(const ListView& view, Session& session);

// INVALID_ARGUMENT: a column is none. `table` has a row an item.
absl::Status PrintListView(const ListView& view, const Table& table, const std::vector<Json>& items,
                           absl::string_view name_key, Session& session);

}  // namespace muster::cli
