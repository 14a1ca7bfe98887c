#include "worker/agent/preemption/notice_answers.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/object_store/http_headers.h"
#include "nlohmann/json.hpp"

namespace muster::worker {
namespace {

using nlohmann::json;

constexpr char kHttpDate[] = "%a, %d %b %Y %H:%M:%S GMT";
// Of an Azure event that has begun already: nobody knows how long ago.
constexpr absl::Duration kLeftOnceStarted = absl::Seconds(5);
constexpr size_t kMaxEvents = 1024;

std::optional<absl::Time> ParseAs(absl::string_view format, const std::string& text) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(format, text, &time, &error)) return std::nullopt;
  return time;
}

// The member as a text; "" when it is missing or of another type.
std::string TextOf(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_string() ? "" : found->get<std::string>();
}

absl::Duration Left(std::optional<absl::Time> time, absl::Time now, absl::Duration most) {
  if (!time.has_value()) return most;
  return std::clamp(*time - now, absl::ZeroDuration(), most);
}

// What an event of this type does to the machine; "": it stays.
std::string AzureMessage(const std::string& type) {
  if (type == "Preempt") return "Azure takes this spot machine away";
  if (type == "Terminate") return "Azure deletes this machine";
  if (type == "Reboot") return "Azure restarts this machine";
  if (type == "Redeploy") return "Azure moves this machine to another host";
  return "";
}

// The notice in one event; nothing: it is not for this machine, leaves it alone, or makes no sense.
std::optional<MachineNotice> ReadAzureEvent(const json& event, absl::string_view machine,
                                            absl::Time now) {
  if (!event.is_object()) return std::nullopt;
  MachineNotice notice;
  const std::string type = TextOf(event, "EventType");
  notice.id = TextOf(event, "EventId");
  notice.message = AzureMessage(type);
  const std::string status = TextOf(event, "EventStatus");
  const bool stands = status == "Scheduled" || status == "Started" || status.empty();
  if (notice.message.empty() || !stands || !IsPlainHeaderValue(notice.id)) return std::nullopt;
  const auto resources = event.find("Resources");
  if (resources == event.end() || !resources->is_array()) return std::nullopt;
  const bool names_this =
      std::any_of(resources->begin(), resources->end(), [&](const json& resource) {
        return resource.is_string() &&
               absl::EqualsIgnoreCase(resource.get_ref<const std::string&>(), machine);
      });
  if (!names_this) return std::nullopt;
  if (status == "Started") {
    notice.left = kLeftOnceStarted;
  } else {
    notice.left = Left(ParseAs(kHttpDate, TextOf(event, "NotBefore")), now,
                       type == "Preempt" ? kAzureNotice : kAzureMaintenanceNotice);
    notice.awaits_approval = resources->size() == 1 && !notice.id.empty();
  }
  return notice;
}

}  // namespace

absl::Time TimeOfAnswer(absl::string_view date_header, absl::Time now) {
  return ParseAs(kHttpDate, std::string(date_header)).value_or(now);
}

absl::StatusOr<MachineNotice> ReadAwsAction(absl::string_view body, absl::Time now) {
  const json answer = json::parse(body, nullptr, /*allow_exceptions=*/false);
  const std::string action = answer.is_object() ? TextOf(answer, "action") : "";
  if (action != "terminate" && action != "stop" && action != "hibernate") {
    return absl::InvalidArgumentError("instance-action: not an answer that AWS gives");
  }
  const std::string text = TextOf(answer, "time");
  const std::optional<absl::Time> time = ParseAs(absl::RFC3339_full, text);
  MachineNotice notice;
  notice.id = time.has_value() ? absl::StrCat(action, " ", text) : action;
  notice.message = absl::StrCat("AWS will ", action, " this spot machine");
  notice.left = Left(time, now, kAwsNotice);
  return notice;
}

absl::StatusOr<std::optional<MachineNotice>> ReadGcpPreempted(absl::string_view body) {
  const absl::string_view word = absl::StripAsciiWhitespace(body);
  if (word == "FALSE") return std::nullopt;
  if (word != "TRUE") {
    return absl::InvalidArgumentError("instance/preempted: neither TRUE nor FALSE");
  }
  MachineNotice notice;
  notice.id = "preempted";
  notice.message = "GCP takes this spot machine away";
  notice.left = kGcpNotice;
  return notice;
}

std::optional<MachineNotice> ReadGcpMaintenance(absl::string_view body, bool has_gpus) {
  if (!absl::StartsWith(absl::StripAsciiWhitespace(body), "TERMINATE")) return std::nullopt;
  MachineNotice notice;
  notice.id = "maintenance";
  notice.message = "GCP stops this machine for maintenance of its host";
  notice.left = has_gpus ? kGcpGpuMaintenanceNotice : kGcpMaintenanceNotice;
  return notice;
}

absl::StatusOr<std::optional<MachineNotice>> ReadAzureEvents(absl::string_view body,
                                                             absl::string_view machine,
                                                             absl::Time now) {
  const json answer = json::parse(body, nullptr, /*allow_exceptions=*/false);
  const auto events = answer.is_object() ? answer.find("Events") : answer.end();
  if (!answer.is_object() || events == answer.end() || !events->is_array() ||
      events->size() > kMaxEvents) {
    return absl::InvalidArgumentError("scheduledevents: not an answer that Azure gives");
  }
  std::optional<MachineNotice> soonest;
  for (const json& event : *events) {
    const std::optional<MachineNotice> notice = ReadAzureEvent(event, machine, now);
    if (notice.has_value() && (!soonest.has_value() || notice->left < soonest->left)) {
      soonest = notice;
    }
  }
  return soonest;
}

std::string AzureApproval(const std::string& event_id) {
  const json approval = {{"StartRequests", json::array({{{"EventId", event_id}}})}};
  return approval.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

}  // namespace muster::worker
