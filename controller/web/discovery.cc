#include "controller/web/discovery.h"

#include <nlohmann/json.hpp>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/os/loopback.h"

namespace muster::controller {
namespace {

// Of an agent elsewhere whose port is on its own loopback nobody here can read: Prometheus would
// take what is on its own machine for it.
bool IsReached(const WorkerFacts& facts, absl::string_view address) {
  if (address.empty()) return false;
  const bool is_elsewhere =
      !facts.advertise_address.empty() && !IsLoopbackAddress(facts.advertise_address);
  return !is_elsewhere || !IsLoopbackAddress(address);
}

}  // namespace

std::string DiscoveryJson(const Snapshot& snapshot, bool tls_only) {
  nlohmann::json targets = nlohmann::json::array();
  snapshot.workers.ForEach([&](const Worker& worker) {
    absl::string_view address = worker.facts.metrics_address;
    const bool by_tls = absl::ConsumePrefix(&address, "https://");
    if (worker.lost || !IsReached(worker.facts, address)) return;
    if (tls_only && !by_tls && !IsLoopbackAddress(address)) return;
    nlohmann::json labels = {{"worker", worker.name}, {"pool", worker.facts.pool}};
    if (by_tls) labels["__scheme__"] = "https";
    targets.push_back({{"targets", {std::string(address)}}, {"labels", std::move(labels)}});
  });
  // What an agent says need not be UTF-8: broken bytes become U+FFFD.
  return targets.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace muster::controller
