#include "common/metrics/http_guard.h"

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "common/os/secrets.h"

namespace muster {
namespace {

// What stands behind the scheme; empty: it is another.
absl::string_view After(absl::string_view scheme, absl::string_view authorization) {
  if (!absl::StartsWithIgnoreCase(authorization, scheme)) return {};
  return authorization.substr(scheme.size());
}

}  // namespace

bool IsOpenToAll(absl::string_view path) { return path == "/healthz" || path == "/readyz"; }

bool ShowsToken(absl::string_view authorization, absl::string_view token) {
  if (const absl::string_view bearer = After("Bearer ", authorization); !bearer.empty()) {
    return IsSameSecret(bearer, token);
  }
  std::string user_and_password;
  if (!absl::Base64Unescape(After("Basic ", authorization), &user_and_password)) return false;
  const size_t colon = user_and_password.find(':');
  if (colon == std::string::npos) return false;
  return IsSameSecret(absl::string_view(user_and_password).substr(colon + 1), token);
}

}  // namespace muster
