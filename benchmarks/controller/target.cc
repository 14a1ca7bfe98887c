#include "benchmarks/controller/target.h"

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/rpc/channel.h"
#include "common/rpc/token.h"
#include "common/rpc/token_file.h"
#include "common/spec/load_spec.h"

namespace muster::benchmarks {

absl::StatusOr<Target> FindTarget(const std::string& data_dir) {
  std::ifstream file(data_dir + "/endpoints.json");
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::NotFoundError(absl::StrCat(data_dir, "/endpoints.json: is musterd running?"));
  }
  Target target;
  target.people = json.value("grpc_address", "");
  target.workers = json.value("worker_address", "");
  target.pid = json.value("pid", 0);
  MUSTER_ASSIGN_OR_RETURN(target.token, ReadTokenFile(data_dir + "/token"));
  return target;
}

std::shared_ptr<grpc::Channel> LastingChannel(const std::string& address) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<grpc::Channel>>;
  std::lock_guard<std::mutex> lock(mutex);
  return kept->emplace_back(MakeChannel({.address = address}));
}

std::vector<std::unique_ptr<v1::JobService::Stub>> PeopleStubs(const Target& target, int clients) {
  std::vector<std::unique_ptr<v1::JobService::Stub>> stubs;
  for (int i = 0; i < clients; ++i) {
    stubs.push_back(v1::JobService::NewStub(LastingChannel(target.people)));
  }
  return stubs;
}

absl::StatusOr<v1::SubmitRequest> SubmitRequestOf(const std::string& yaml) {
  SpecSource source;
  source.base_dir = "/";
  v1::SubmitRequest request;
  MUSTER_ASSIGN_OR_RETURN(*request.mutable_spec(), LoadSpec(yaml, source));
  request.set_owner("bench");
  request.set_protocol_version(kProtocolVersion);
  return request;
}

uint64_t FreshNumber() {
  static std::atomic<uint64_t> made = 0;
  return ++made;
}

std::string FreshKey() {
  static const std::string prefix =
      absl::StrCat(absl::Hex(absl::GetCurrentTimeNanos()), "-", ::getpid(), "-");
  return absl::StrCat(prefix, FreshNumber());
}

}  // namespace muster::benchmarks
