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

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/unique_fd.h"
#include "common/os/loopback.h"

namespace muster::worker {
namespace {

std::optional<uint64_t> ReadNumber(const std::string& path) {
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
  const std::string old_limit = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
  return std::min({bytes, ReadNumber(old_limit).value_or(bytes),
                   CgroupMemoryBytes("/proc/self/cgroup", "/sys/fs/cgroup").value_or(bytes)});
}

std::optional<uint64_t> CgroupMemoryBytes(const std::string& cgroups, const std::string& mount) {
  std::ifstream file(cgroups);
  std::string line;
  while (std::getline(file, line) && !absl::StartsWith(line, "0::/")) {
  }
  if (!absl::StartsWith(line, "0::/")) return std::nullopt;
  std::optional<uint64_t> least;
  std::string folder = line.substr(sizeof("0::") - 1);
  while (true) {
    const auto limit = ReadNumber(absl::StrCat(mount, folder, "/memory.max"));
    if (limit.has_value()) least = std::min(least.value_or(*limit), *limit);
    if (folder.empty()) return least;
    folder.resize(folder.rfind('/'));
  }
}

uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  file >> size >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::vector<GpuReading> VisibleGpus(const std::vector<GpuReading>& gpus, const char* visible) {
  if (visible == nullptr) return gpus;
  std::vector<GpuReading> shown;
  for (const absl::string_view entry : absl::StrSplit(visible, ',')) {
    const absl::string_view name = absl::StripAsciiWhitespace(entry);
    uint32_t number = 0;
    const auto found =
        absl::SimpleAtoi(name, &number)
            ? gpus.begin() + std::min<size_t>(number, gpus.size())
            : std::find_if(gpus.begin(), gpus.end(), [&](const GpuReading& gpu) {
                return absl::StartsWith(name, "GPU-") && absl::StartsWith(gpu.uuid, name);
              });
    if (found == gpus.end()) break;
    const bool again = std::any_of(shown.begin(), shown.end(),
                                   [&](const GpuReading& gpu) { return gpu.uuid == found->uuid; });
    if (!again) shown.push_back(*found);
  }
  return shown;
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

absl::StatusOr<std::string> AddressTowards(const std::string& host) {
  if (IsLoopback(host)) return "127.0.0.1";
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
