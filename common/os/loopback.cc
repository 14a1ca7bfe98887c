#include "common/os/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

#include "absl/strings/strip.h"

namespace muster {

bool IsLoopback(absl::string_view host) {
  if (host == "localhost") return true;
  if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) return false;
  const std::string text(host);
  in_addr v4{};
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return ::inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool IsLoopbackAddress(absl::string_view address) {
  return IsLoopback(address) || IsLoopback(address.substr(0, address.rfind(':')));
}

}  // namespace muster
