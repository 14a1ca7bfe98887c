#include "controller/store/project_rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "controller/store/row_codec.h"

namespace muster::controller {
namespace {

using Json = nlohmann::json;

// [slots, queued]; null: not bounded.
Json Encode(const Quota& quota) {
  const auto bound = [](const std::optional<uint32_t>& value) {
    return value.has_value() ? Json(*value) : Json();
  };
  return Json::array({bound(quota.slots), bound(quota.queued)});
}

bool Decode(const Json& json, Quota& quota) {
  if (!json.is_array() || json.size() != 2) return false;
  for (const Json& bound : json) {
    if (!bound.is_null() && !bound.is_number_unsigned()) return false;
  }
  if (!json[0].is_null()) quota.slots = json[0].get<uint32_t>();
  if (!json[1].is_null()) quota.queued = json[1].get<uint32_t>();
  return true;
}

std::string EncodeQuotas(const Project& project) {
  Json users = Json::object();
  for (const auto& [user, quota] : project.users) users[user] = Encode(quota);
  const Json json = {{"project", Encode(project.quota)},
                     {"each_user", Encode(project.each_user)},
                     {"users", users}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool DecodeQuotas(absl::string_view text, Project& project) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("project") || !json.contains("each_user") ||
      !json.contains("users") || !json["users"].is_object()) {
    return false;
  }
  for (const auto& [user, quota] : json["users"].items()) {
    if (!Decode(quota, project.users[user])) return false;
  }
  return Decode(json["project"], project.quota) && Decode(json["each_user"], project.each_user);
}

}  // namespace

absl::Status PutProject(SqliteDatabase& db, const Project& project) {
  SqliteStatement row = db.Prepare(
      "INSERT OR REPLACE INTO projects (name, weight, quotas, used_slot_seconds, used_at_ms)"
      " VALUES (?, ?, ?, ?, ?)");
  row.Bind(project.name).Bind(project.weight).Bind(EncodeQuotas(project));
  row.Bind(project.used.slot_seconds);
  BindTime(row, project.used.at);
  return row.Run();
}

absl::StatusOr<std::map<std::string, std::shared_ptr<const Project>>> LoadProjects(
    SqliteDatabase& db, absl::Time now) {
  std::map<std::string, std::shared_ptr<const Project>> projects;
  SqliteStatement row =
      db.Prepare("SELECT name, weight, quotas, used_slot_seconds, used_at_ms FROM projects");
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return projects;
    auto project = std::make_shared<Project>();
    project->name = row.Text(0);
    project->weight = row.Double(1);
    if (!DecodeQuotas(row.Text(2), *project)) {
      return absl::DataLossError(
          absl::StrCat("state.db: project ", project->name, " has broken quotas"));
    }
    project->used.slot_seconds = row.Double(3);
    project->used.at = std::min(ReadTime(row, 4, absl::InfinitePast()), now);
    projects.emplace(project->name, std::move(project));
  }
}

}  // namespace muster::controller
