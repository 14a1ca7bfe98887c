#include "controller/this_boot.h"

#include <fstream>
#include <string>

namespace muster::controller {

uint64_t BootNumber(absl::string_view boot_id) {
  if (boot_id.empty()) return 0;
  // FNV-1a, without the sign bit: SQLite's integers have one.
  uint64_t hash = 14695981039346656037u;
  for (const char c : boot_id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash >> 1;
}

uint64_t ThisBoot() {
  // A stream, since the kernel gives the size of its own files as 0.
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return BootNumber(id);
}

}  // namespace muster::controller
