#include "cli/commands/list_flags.h"

#include "common/base/status_macros.h"

namespace muster::cli {

void AddListFlags(CLI::App& command, ListRequest& request) {
  command
      .add_option("--columns", request.columns,
                  "these columns, or fields of -o json, comma-separated: id,name,age")
      ->allow_extra_args(false)
      ->delimiter(',');
  command
      .add_option("--sort", request.sort,
                  "by these, comma-separated; -KEY for the other way round: -loss,name")
      ->allow_extra_args(false)
      ->delimiter(',');
  AddFilterFlag(command, request);
}

void AddFilterFlag(CLI::App& command, ListRequest& request) {
  command
      .add_option("--filter", request.filters,
                  "only where it holds: state=running,failed name~digits age<1h goodput>=90% "
                  "(repeatable: all)")
      ->allow_extra_args(false);
}

bool NeedsWideTable(const ListView& view, Session& session) {
  return session.globals().wide() || view.has_columns();
}

absl::Status PrintListView(const ListView& view, const Table& table, const std::vector<Json>& items,
                           absl::string_view name_key, Session& session) {
  if (session.globals().tables()) {
    MUSTER_ASSIGN_OR_RETURN(const Table picked, view.Columns(table, items));
    session.PrintList(picked, items, name_key);
  } else if (session.globals().format == Format::kCsv) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<Json> picked, view.Fields(items));
    session.PrintList(table, picked, name_key);
  } else {
    session.PrintList(table, items, name_key);
  }
  return absl::OkStatus();
}

}  // namespace muster::cli
