#include "controller/web/discovery.h"

#include <nlohmann/json.hpp>

#include "common/os/loopback.h"

namespace muster::controller {
namespace {

// Of an agent elsewhere whose port is on its own loopback nobody here can read: Prometheus would
// take what is on its own machine for it.
bool IsReached(const WorkerFacts& facts) {
  if (facts.metrics_address.empty()) return false;
  const bool is_elsewhere =
      !facts.advertise_address.empty() && !IsLoopbackAddress(facts.advertise_address);
  return !is_elsewhere || !IsLoopbackAddress(facts.metrics_address);
}

}  // namespace

std::string DiscoveryJson(const Snapshot& snapshot) {
  nlohmann::json targets = nlohmann::json::array();
  snapshot.workers.ForEach([&](const Worker& worker) {
    if (worker.lost || !IsReached(worker.facts)) return;
    targets.push_back({{"targets", {worker.facts.metrics_address}},
                       {"labels", {{"worker", worker.name}, {"pool", worker.facts.pool}}}});
  });
  // What an agent says need not be UTF-8: broken bytes become U+FFFD.
  return targets.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace muster::controller
