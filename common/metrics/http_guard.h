// Who may read what is served over HTTP: who shows the scrape token. Pure; any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Probes of load balancers and supervisors, which can hold no secret, and are told only whether it
// serves.
bool IsOpenToAll(absl::string_view path);

// Whether `authorization`, the header of that name, shows `token`: as `Bearer TOKEN`, or as the
// password of `Basic`, for browsers. The time it takes does not depend on where the two differ.
bool ShowsToken(absl::string_view authorization, absl::string_view token);

}  // namespace muster
