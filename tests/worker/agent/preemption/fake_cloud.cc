#include "tests/worker/agent/preemption/fake_cloud.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

namespace muster::testing {
namespace {

using nlohmann::json;

std::string DateOf(absl::Time time) {
  return absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", time, absl::UTCTimeZone());
}

// The value of a parameter of a query; "" when it is not there.
std::string Parameter(const std::string& query, const std::string& name) {
  for (const absl::string_view part : absl::StrSplit(query, '&')) {
    if (absl::StartsWith(part, name + "=")) return std::string(part.substr(name.size() + 1));
  }
  return "";
}

}  // namespace

FakeCloud::FakeCloud()
    : server_([this](const ServerRequest& request, ScriptedServer::Answer& answer) {
        Serve(request, answer);
      }) {}

FakeCloud::~FakeCloud() {
  MutexLock lock(mutex_);
  stopped_ = true;
  changed_.NotifyAll();
}

void FakeCloud::SetTrouble(Trouble trouble) {
  MutexLock lock(mutex_);
  trouble_ = std::move(trouble);
}

void FakeCloud::Interrupt(const std::string& machine, absl::Duration in,
                          const std::string& action) {
  MutexLock lock(mutex_);
  const std::string time =
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now() + in, absl::UTCTimeZone());
  machines_[machine].action = {{"action", action}, {"time", time}};
}

void FakeCloud::RevokeTokens() {
  MutexLock lock(mutex_);
  tokens_.clear();
}

void FakeCloud::SetPreempted(const std::string& machine, bool preempted) {
  MutexLock lock(mutex_);
  machines_[machine].preempted = preempted;
  ++machines_[machine].version;
  changed_.NotifyAll();
}

void FakeCloud::SetMaintenance(const std::string& machine, const std::string& word) {
  MutexLock lock(mutex_);
  machines_[machine].maintenance = word;
}

void FakeCloud::Schedule(const std::string& id, const std::string& type,
                         const std::vector<std::string>& resources, absl::Duration in,
                         const std::string& status) {
  MutexLock lock(mutex_);
  events_.push_back({{"EventId", id},
                     {"EventStatus", status},
                     {"EventType", type},
                     {"ResourceType", "VirtualMachine"},
                     {"Resources", resources},
                     {"NotBefore", status == "Started" ? "" : DateOf(absl::Now() + in)},
                     {"Description", ""},
                     {"EventSource", "Platform"}});
}

std::vector<std::string> FakeCloud::approved() const {
  MutexLock lock(mutex_);
  return approved_;
}

void FakeCloud::Withdraw(const std::string& machine) {
  MutexLock lock(mutex_);
  machines_[machine].action = nullptr;
  machines_[machine].maintenance = "NONE";
  machines_[machine].preempted = false;
  ++machines_[machine].version;
  events_.erase(std::remove_if(events_.begin(), events_.end(),
                               [&](const json& event) {
                                 const json& names = event["Resources"];
                                 return std::find(names.begin(), names.end(), machine) !=
                                        names.end();
                               }),
                events_.end());
  changed_.NotifyAll();
}

size_t FakeCloud::Count(const std::string& path_end, const std::string& method) const {
  size_t count = 0;
  for (const ServerRequest& request : requests()) {
    const std::string path = request.target.substr(0, request.target.find('?'));
    if (request.method == method && absl::EndsWith(path, path_end)) ++count;
  }
  return count;
}

void FakeCloud::Serve(const ServerRequest& request, ScriptedServer::Answer& answer) {
  Trouble trouble;
  {
    MutexLock lock(mutex_);
    trouble = trouble_;
  }
  if (trouble && trouble(request, answer)) return;
  const size_t question = std::min(request.target.find('?'), request.target.size());
  const std::string query = request.target.substr(std::min(question + 1, request.target.size()));
  const size_t slash = request.target.find('/', 1);
  if (slash >= question) return answer.Reply(404, {}, "");
  const std::string machine = request.target.substr(1, slash - 1);
  const std::string path = request.target.substr(slash, question - slash);
  if (absl::StartsWith(path, "/latest/")) return ServeAws(machine, path, request, answer);
  if (absl::StartsWith(path, "/computeMetadata/"))
    return ServeGcp(machine, path, query, request, answer);
  if (absl::StartsWith(path, "/metadata/"))
    return ServeAzure(machine, path, query, request, answer);
  answer.Reply(404, {}, "");
}

void FakeCloud::ServeAws(const std::string& machine, const std::string& path,
                         const ServerRequest& request, ScriptedServer::Answer& answer) {
  const std::string date = DateOf(absl::Now());
  if (path == "/latest/api/token") {
    int seconds = 0;
    const bool good =
        request.method == "PUT" &&
        absl::SimpleAtoi(request.header("x-aws-ec2-metadata-token-ttl-seconds"), &seconds) &&
        seconds >= 1 && seconds <= 21'600;
    if (!good) return answer.Reply(400, {}, "");
    std::string token;
    {
      MutexLock lock(mutex_);
      token = absl::StrCat("token-", next_token_++);
      tokens_.insert(token);
    }
    return answer.Reply(200, {{"Date", date}}, token);
  }
  json action;
  {
    MutexLock lock(mutex_);
    if (!tokens_.contains(request.header("x-aws-ec2-metadata-token")))
      action = "unauthorized";
    else
      action = machines_[machine].action;
  }
  if (action == "unauthorized") return answer.Reply(401, {}, "");
  if (path != "/latest/meta-data/spot/instance-action" || action.is_null())
    return answer.Reply(404, {{"Date", date}}, "");
  answer.Reply(200, {{"Date", date}}, action.dump());
}

void FakeCloud::ServeGcp(const std::string& machine, const std::string& path,
                         const std::string& query, const ServerRequest& request,
                         ScriptedServer::Answer& answer) {
  if (request.header("metadata-flavor") != "Google") return answer.Reply(403, {}, "");
  std::string body;
  std::string etag;
  if (path == "/computeMetadata/v1/instance/preempted") {
    int seconds = 3600;
    (void)absl::SimpleAtoi(Parameter(query, "timeout_sec"), &seconds);
    const absl::Time until = absl::Now() + absl::Seconds(seconds);
    MutexLock lock(mutex_);
    const bool waits = Parameter(query, "wait_for_change") == "true";
    const std::string last = Parameter(query, "last_etag");
    while (waits && !stopped_ && absl::StrCat("e", machines_[machine].version) == last &&
           absl::Now() < until) {
      changed_.WaitFor(mutex_, until - absl::Now());
    }
    body = machines_[machine].preempted ? "TRUE" : "FALSE";
    etag = absl::StrCat("e", machines_[machine].version);
  } else if (path == "/computeMetadata/v1/instance/maintenance-event") {
    MutexLock lock(mutex_);
    body = machines_[machine].maintenance;
    etag = "m";
  } else {
    return answer.Reply(404, {{"Metadata-Flavor", "Google"}}, "");
  }
  answer.Reply(200, {{"Metadata-Flavor", "Google"}, {"ETag", etag}}, body);
}

void FakeCloud::ServeAzure(const std::string& machine, const std::string& path,
                           const std::string& query, const ServerRequest& request,
                           ScriptedServer::Answer& answer) {
  if (request.header("metadata") != "true" || Parameter(query, "api-version").empty())
    return answer.Reply(400, {}, "");
  if (path == "/metadata/instance/compute/name") return answer.Reply(200, {}, machine);
  if (path != "/metadata/scheduledevents") return answer.Reply(404, {}, "");
  json body;
  {
    MutexLock lock(mutex_);
    if (request.method == "POST") {
      const json told = json::parse(request.body, nullptr, false);
      if (!told.is_object() || !told.contains("StartRequests")) {
        body = nullptr;
      } else {
        for (const json& one : told["StartRequests"]) approved_.push_back(one["EventId"]);
        body = json::object();
      }
    } else {
      body = {{"DocumentIncarnation", 1}, {"Events", events_}};
    }
  }
  if (body.is_null()) return answer.Reply(400, {}, "");
  answer.Reply(200, {{"Date", DateOf(absl::Now())}}, body.dump());
}

}  // namespace muster::testing
