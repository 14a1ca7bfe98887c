#include "common/os/unique_name.h"

#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/os/boot_id.h"

namespace muster {

std::string MachinePrefix() {
  std::string boot = BootId().substr(0, 8);
  boot.resize(8, '0');
  return boot + "-";
}

std::string UniqueName() {
  static std::atomic<uint64_t> names = 0;
  uint64_t random = 0;
  // Fewer than 256 bytes are never cut short once the pool is ready.
  (void)!::getrandom(&random, sizeof random, 0);
  return absl::StrCat(MachinePrefix(), ::getpid(), "-", absl::Hex(random ^ names++));
}

}  // namespace muster
