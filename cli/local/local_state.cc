#include "cli/local/local_state.h"

namespace muster::cli {
namespace {

Json Parsed(absl::string_view text) {
  return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

std::string Text(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
}

int64_t Whole(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_number_integer() ? json[key].get<int64_t>() : 0;
}

Json DaemonJson(const DaemonRecord& daemon) {
  return {{"name", daemon.name},
          {"pid", daemon.pid},
          {"grpc_address", daemon.grpc_address},
          {"metrics_url", daemon.metrics_url},
          {"restarts", daemon.restarts},
          {"state", daemon.state}};
}

}  // namespace

std::string EncodeLocalRecord(const LocalRecord& record) {
  Json json = LocalStatusJson(record, true);
  json["stopping"] = record.stopping;
  return json.dump(2) + "\n";
}

absl::StatusOr<LocalRecord> DecodeLocalRecord(absl::string_view text) {
  const Json json = Parsed(text);
  if (!json.is_object() || !json.contains("daemons") || !json["daemons"].is_array()) {
    return absl::InvalidArgumentError("not a supervisor's record");
  }
  LocalRecord record;
  record.dir = Text(json, "dir");
  record.supervisor_pid = Whole(json, "supervisor_pid");
  record.stopping = json.contains("stopping") && json["stopping"] == true;
  for (const Json& daemon : json["daemons"]) {
    if (!daemon.is_object()) return absl::InvalidArgumentError("not a supervisor's record");
    record.daemons.push_back({.name = Text(daemon, "name"),
                              .pid = Whole(daemon, "pid"),
                              .grpc_address = Text(daemon, "grpc_address"),
                              .metrics_url = Text(daemon, "metrics_url"),
                              .restarts = static_cast<uint32_t>(Whole(daemon, "restarts")),
                              .state = Text(daemon, "state")});
  }
  return record;
}

Json LocalStatusJson(const LocalRecord& record, bool running) {
  Json json = {{"dir", record.dir}, {"running", running}};
  json["supervisor_pid"] = running ? Json(record.supervisor_pid) : Json(nullptr);
  json["daemons"] = Json::array();
  for (const DaemonRecord& daemon : record.daemons) json["daemons"].push_back(DaemonJson(daemon));
  return json;
}

absl::StatusOr<Endpoints> DecodeEndpoints(absl::string_view text) {
  const Json json = Parsed(text);
  if (!json.is_object() || Whole(json, "pid") <= 0)
    return absl::InvalidArgumentError("not an endpoints file");
  Endpoints endpoints{.pid = Whole(json, "pid"),
                      .grpc_address = Text(json, "grpc_address"),
                      .worker_address = Text(json, "worker_address"),
                      .http_address = Text(json, "http_address")};
  if (endpoints.http_address.empty()) endpoints.http_address = Text(json, "metrics_address");
  return endpoints;
}

}  // namespace muster::cli
