#include "cli/session/cli_session.h"

#include <algorithm>
#include <utility>

#include "cli/output/text.h"
#include "common/base/status_macros.h"

namespace muster::cli {

absl::StatusOr<Client*> Session::Connect() {
  if (client_ == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(Endpoint endpoint, FindController(host_, fs_, globals_.context));
    MUSTER_RETURN_IF_ERROR(CheckMaySend(endpoint));
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

absl::Status Session::CheckLineFormat() const {
  if (globals_.tables() || IsJson(globals_.format)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "this verb prints lines as they come: -o takes table, json and jsonl here");
}

void Session::Say(absl::string_view line) {
  ++said_;
  host_.err << Plain(line) << std::endl;
}

}  // namespace muster::cli
