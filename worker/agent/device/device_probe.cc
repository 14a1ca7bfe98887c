#include "worker/agent/device/device_probe.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/unique_fd.h"

namespace muster::worker {
namespace {

std::optional<uint64_t> ReadNumber(const char* path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // not there, or "max"
}

}  // namespace

uint32_t AvailableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<uint32_t>(CPU_COUNT(&set));
  return static_cast<uint32_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

uint64_t AvailableMemoryBytes() {
  uint64_t bytes = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                   static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  for (const char* limit :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    if (const auto value = ReadNumber(limit); value.has_value()) bytes = std::min(bytes, *value);
  }
  return bytes;
}

uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  file >> size >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::vector<v1::Slot> MakeSlots(const std::vector<GpuReading>& gpus,
                                std::optional<uint32_t> cpu_slots, uint32_t cpus,
                                uint64_t memory_bytes) {
  std::vector<v1::Slot> slots;
  for (const GpuReading& gpu : gpus) {
    v1::Slot& slot = slots.emplace_back();
    slot.set_index(static_cast<uint32_t>(slots.size() - 1));
    slot.set_kind(v1::GPU);
    slot.set_device(gpu.name);
    slot.set_uuid(gpu.uuid);
    slot.set_memory_bytes(gpu.memory_bytes);
  }
  const uint32_t wanted = cpu_slots.value_or(gpus.empty() ? cpus : 0);
  for (uint32_t i = 0; i < wanted; ++i) {
    v1::Slot& slot = slots.emplace_back();
    slot.set_index(static_cast<uint32_t>(slots.size() - 1));
    slot.set_kind(v1::CPU);
    slot.set_device("cpu");
    slot.set_memory_bytes(memory_bytes / wanted);
  }
  return slots;
}

bool IsLoopbackHost(const std::string& host) {
  return host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

absl::StatusOr<std::string> AddressTowards(const std::string& host) {
  if (IsLoopbackHost(host)) return "127.0.0.1";
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  // The port does not matter: connecting a datagram socket sends nothing.
  if (const int error = ::getaddrinfo(host.c_str(), "9", &hints, &list); error != 0) {
    return absl::UnavailableError(absl::StrCat(host, ": ", ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    const UniqueFd fd(::socket(info->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage local = {};
    socklen_t local_bytes = sizeof local;
    char text[NI_MAXHOST];
    if (fd.valid() && ::connect(fd.get(), info->ai_addr, info->ai_addrlen) == 0 &&
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &local_bytes) == 0 &&
        ::getnameinfo(reinterpret_cast<sockaddr*>(&local), local_bytes, text, sizeof text, nullptr,
                      0, NI_NUMERICHOST) == 0) {
      return std::string(text);
    }
  }
  return absl::UnavailableError(absl::StrCat("no route to ", host, "; give --advertise-address"));
}

}  // namespace muster::worker
