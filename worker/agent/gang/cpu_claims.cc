#include "worker/agent/gang/cpu_claims.h"

#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

UniqueFd ClaimOne(const std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  // A leading zero byte makes the name abstract: no file stands behind it.
  ::memcpy(address.sun_path + 1, name.data(), name.size());
  const socklen_t size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (!fd.valid() || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    return UniqueFd();
  }
  return fd;
}

}  // namespace

CpuClaim ClaimCpus(uint32_t count, const char* space) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (count == 0 || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  CpuClaim claim;
  for (int cpu = 0; cpu < CPU_SETSIZE && claim.cpus.size() < count; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    UniqueFd held = ClaimOne(absl::StrCat(space, cpu));
    if (!held.valid()) continue;
    claim.cpus.push_back(cpu);
    claim.held.push_back(std::move(held));
  }
  return claim.cpus.size() == count ? std::move(claim) : CpuClaim{};
}

}  // namespace muster::worker
