#include "controller/web/discovery.h"

#include <nlohmann/json.hpp>

namespace muster::controller {

std::string DiscoveryJson(const Snapshot& snapshot) {
  nlohmann::json targets = nlohmann::json::array();
  snapshot.workers.ForEach([&](const Worker& worker) {
    if (worker.lost || worker.facts.metrics_address.empty()) return;
    targets.push_back({{"targets", {worker.facts.metrics_address}},
                       {"labels", {{"worker", worker.name}, {"pool", worker.facts.pool}}}});
  });
  // What an agent says need not be UTF-8: broken bytes become U+FFFD.
  return targets.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace muster::controller
