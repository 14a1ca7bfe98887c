#include "controller/web/gateway/request_checks.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/os/loopback.h"

namespace muster::controller {
namespace {

std::string HeaderOf(const ServedRequest& request, const char* name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

}  // namespace

bool NamesLoopback(absl::string_view host) {
  return IsLoopbackAddress(absl::AsciiStrToLower(host));
}

absl::Status CheckOrigin(const ServedRequest& request) {
  const std::string origin = HeaderOf(request, "origin");
  const size_t scheme = origin.find("://");
  if (!origin.empty() &&
      (scheme == std::string::npos ||
       !absl::EqualsIgnoreCase(origin.substr(scheme + 3), HeaderOf(request, "host")))) {
    return absl::PermissionDeniedError("another site's page asks for this");
  }
  const std::string type = HeaderOf(request, "content-type");
  if (request.is_post &&
      absl::StripAsciiWhitespace(type.substr(0, type.find(';'))) != "application/json") {
    return absl::InvalidArgumentError("a POST must say Content-Type: application/json");
  }
  return absl::OkStatus();
}

}  // namespace muster::controller
