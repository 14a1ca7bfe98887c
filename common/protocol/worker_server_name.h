// The host name that certificates of agents' HTTP ports are for, whatever the machine is called:
// who scrapes them checks it (Prometheus: tls_config.server_name). No worker and no controller is
// called so, and such a certificate serves nothing else.
#pragma once

namespace muster {

inline constexpr char kWorkerServerName[] = "workers.muster.internal";

}  // namespace muster
