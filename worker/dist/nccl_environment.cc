#include "worker/dist/nccl_environment.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdlib.h>

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

// The number without a scope, in the one way of writing it; empty: it is none.
std::string Canonical(absl::string_view address) {
  const std::string plain(address.substr(0, address.find('%')));
  for (const int family : {AF_INET, AF_INET6}) {
    in6_addr bytes;
    char text[INET6_ADDRSTRLEN];
    if (::inet_pton(family, plain.c_str(), &bytes) == 1)
      return ::inet_ntop(family, &bytes, text, sizeof text);
  }
  return "";
}

std::string NumberOf(const sockaddr* address) {
  char text[NI_MAXHOST];
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  const int failed = ::getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? text : "";
}

std::vector<InterfaceAddress> InterfaceAddresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(first, ::freeifaddrs);
  std::vector<InterfaceAddress> all;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    const int family = entry->ifa_addr == nullptr ? AF_UNSPEC : entry->ifa_addr->sa_family;
    if (family == AF_INET || family == AF_INET6)
      all.push_back({entry->ifa_name, NumberOf(entry->ifa_addr)});
  }
  return all;
}

// Other hosts cannot be reached over it.
bool IsLoopback(absl::string_view canonical) {
  return canonical == "::1" || absl::StartsWith(canonical, "127.");
}

// What the name stands for; a number stands for itself.
std::string Resolve(const std::string& name) {
  addrinfo* first = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, nullptr, &first) != 0) return "";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(first, ::freeaddrinfo);
  return NumberOf(first->ai_addr);
}

}  // namespace

std::map<std::string, std::string> NcclEnvironment(
    absl::string_view address, const std::vector<InterfaceAddress>& interfaces) {
  std::map<std::string, std::string> variables = {
      // torch's watchdog finds errors and timeouts, and leaves it to us to abort.
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"},
      {"TORCH_NCCL_ENABLE_MONITORING", "0"},
      {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"}};
  const std::string wanted = Canonical(address);
  for (const auto& [interface, own] : interfaces) {
    if (wanted.empty() || IsLoopback(wanted) || Canonical(own) != wanted) continue;
    // '=': this very name, not all that begin so.
    variables["NCCL_SOCKET_IFNAME"] = absl::StrCat("=", interface);
    break;
  }
  return variables;
}

void SetNcclEnvironment(const std::string& address) {
  for (const auto& [name, value] : NcclEnvironment(Resolve(address), InterfaceAddresses()))
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
}

}  // namespace muster::worker
