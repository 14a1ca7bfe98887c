#include "common/os/host_port.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/os/loopback.h"

namespace muster {

absl::StatusOr<HostPort> ParseHostPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  absl::string_view host = address.substr(0, colon == address.npos ? 0 : colon);
  int port = -1;
  bool good = colon != address.npos && absl::SimpleAtoi(address.substr(colon + 1), &port) &&
              port >= 0 && port <= 65535;
  const bool bracketed = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  good = good && !host.empty() && (bracketed || host.find_first_of(":[]") == host.npos);
  if (!good) return absl::InvalidArgumentError(absl::StrCat("`", address, "` is not HOST:PORT"));
  return HostPort{std::string(host), port};
}

std::string JoinHostPort(const HostPort& address) {
  if (address.host.find(':') != std::string::npos)
    return absl::StrCat("[", address.host, "]:", address.port);
  return absl::StrCat(address.host, ":", address.port);
}

absl::Status CheckAddressFlag(absl::string_view flag, const std::string& address, bool may_leave,
                              absl::string_view way_out) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", parsed.status().message()));
  }
  if (may_leave || IsLoopback(parsed->host)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      flag, ": ", address, " is not a loopback address, and nothing there would be encrypted; ",
      way_out, " --insecure if the network itself is trusted"));
}

}  // namespace muster
