// What a browser may be made to send, and must not be obeyed in. Pure; any thread.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/metrics/http_server.h"

namespace muster::controller {

// Whether HOST or HOST:PORT names this machine to itself: localhost, 127.x.y.z or [::1].
bool NamesLoopback(absl::string_view host);

// PERMISSION_DENIED: another site's page sends this. A browser says in Origin whose page asks, and
// in Host whom it asks; they must be one. INVALID_ARGUMENT: a POST that is no JSON, which pages of
// other sites could send unasked.
absl::Status CheckOrigin(const ServedRequest& request);

}  // namespace muster::controller
