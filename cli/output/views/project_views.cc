#include "cli/output/views/project_views.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/output/text.h"

namespace muster::cli {
namespace {

std::string Bound(bool bounded, uint32_t bound) {
  return bounded ? absl::StrCat(bound) : std::string();
}

void AddRow(Table& table, const std::string& project, const std::string& user,
            const std::string& weight, const v1::Quota& quota,
            const v1::ProjectInfo::UserUse& use) {
  table.Add({project, user, weight, absl::StrCat(use.slots()),
             Bound(quota.has_slots(), quota.slots()), absl::StrCat(use.queued()),
             Bound(quota.has_queued(), quota.queued())});
}

double ShareOf(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace

Table ProjectTable(const std::vector<v1::ProjectInfo>& projects) {
  Table table({{"PROJECT", false, true},
               {"USER", false, true},
               {"WEIGHT", true},
               {"SLOTS", true},
               {"OF", true},
               {"QUEUED", true},
               {"OF", true}});
  for (const v1::ProjectInfo& project : projects) {
    v1::ProjectInfo::UserUse all;
    all.set_slots(project.slots());
    all.set_queued(project.queued());
    AddRow(table, project.name(), "", Number(project.weight()), project.quota(), all);
    // By name: protobuf's own order changes from run to run.
    std::map<std::string, v1::ProjectInfo::UserUse> users;
    for (const auto& [user, quota] : project.users()) users[user];
    for (const v1::ProjectInfo::UserUse& use : project.user_use()) users[use.user()] = use;
    for (const auto& [user, use] : users) {
      const auto own = project.users().find(user);
      AddRow(table, project.name(), user, "",
             own == project.users().end() ? project.each_user() : own->second, use);
    }
  }
  return table;
}

Table ShareTable(const std::vector<v1::ProjectInfo>& projects) {
  Table table({{"PROJECT", false, true},
               {"WEIGHT", true},
               {"SHARE", true},
               {"USED", true},
               {"SLOT-HOURS", true},
               {"SLOTS", true},
               {"QUEUED", true}});
  double weights = 0;
  double used = 0;
  for (const v1::ProjectInfo& project : projects) {
    weights += project.weight();
    used += project.used_slot_seconds();
  }
  constexpr double kSecondsPerHour = 3600;
  for (const v1::ProjectInfo& project : projects) {
    table.Add({project.name(), Number(project.weight()),
               Percent(ShareOf(project.weight(), weights)),
               Percent(ShareOf(project.used_slot_seconds(), used)),
               absl::StrFormat("%.2f", project.used_slot_seconds() / kSecondsPerHour),
               absl::StrCat(project.slots()), absl::StrCat(project.queued())});
  }
  return table;
}

}  // namespace muster::cli
