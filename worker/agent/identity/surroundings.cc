#include "worker/agent/identity/surroundings.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/rng.h"
#include "common/os/boot_id.h"

namespace muster::worker {
namespace {

constexpr char kNetworkFolder[] = "/sys/class/net";

std::string FirstWord(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// Of the interfaces that are devices: bridges and tunnels come and go.
std::vector<std::string> HardwareAddresses() {
  std::vector<std::string> addresses;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(kNetworkFolder), ::closedir);
  if (folder == nullptr) return addresses;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string path = absl::StrCat(kNetworkFolder, "/", entry->d_name);
    if (::access(absl::StrCat(path, "/device").c_str(), F_OK) != 0) continue;
    addresses.push_back(FirstWord(absl::StrCat(path, "/address")));
  }
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

// What the file names is nobody else's to read.
std::string Digest(const std::string& text) {
  uint64_t hash = 0;
  for (const char byte : text) hash = SplitMix64(hash ^ static_cast<uint8_t>(byte));
  return absl::StrCat(absl::Hex(hash, absl::kZeroPad16));
}

}  // namespace

Surroundings ReadSurroundings(const std::string& data_dir) {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  const std::string machine =
      absl::StrJoin({FirstWord("/etc/machine-id"), FirstWord("/sys/class/dmi/id/product_uuid"),
                     std::string(host), absl::StrJoin(HardwareAddresses(), ",")},
                    "/");
  char pid_namespace[64] = {};
  if (::readlink("/proc/self/ns/pid", pid_namespace, sizeof pid_namespace - 1) < 0) {
    pid_namespace[0] = '\0';
  }
  struct stat folder = {};
  ::stat(data_dir.c_str(), &folder);
  const std::string place =
      absl::StrCat(BootId(), "/", pid_namespace, "/", folder.st_dev, ":", folder.st_ino);
  return {.machine = Digest(machine), .place = place};
}

}  // namespace muster::worker
