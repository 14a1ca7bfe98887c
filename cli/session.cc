#include "cli/session.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"

namespace muster::cli {

absl::StatusOr<Client*> Session::Connect() {
  if (client_ == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(Endpoint endpoint, FindController(host_, fs_, globals_.context));
    client_ = std::make_unique<Client>(std::move(endpoint));
  }
  return client_.get();
}

void Session::PrintList(const Table& table, const std::vector<Json>& items,
                        absl::string_view name_key) {
  if (!globals_.tables()) {
    host_.out << RenderList(globals_.format, items, name_key);
    return;
  }
  // A wide table is for wide terminals and for files; the usual one fits kTableWidth everywhere.
  constexpr size_t kNoLimit = 10'000;
  host_.out << table.Render(globals_.header, globals_.wide() ? kNoLimit : kTableWidth);
}

void Session::PrintOne(absl::string_view page, const Json& item, absl::string_view name_key) {
  host_.out << (globals_.tables() ? std::string(page) : RenderOne(globals_.format, item, name_key));
}

void Session::Say(absl::string_view line) {
  ++said_;
  host_.err << line << std::endl;
}

}  // namespace muster::cli
