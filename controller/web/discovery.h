// The answer of /sd: where Prometheus finds the workers' own metrics (http_sd_configs). Pure.
#pragma once

#include <string>

#include "controller/model/snapshot.h"

namespace muster::controller {

// A JSON list with one entry a worker that is not lost and has a metrics address, labelled with its
// name and pool. `tls_only`: of ports beyond loopback those alone that speak TLS, since Prometheus
// shows all of them the workers' token.
std::string DiscoveryJson(const Snapshot& snapshot, bool tls_only = false);

}  // namespace muster::controller
