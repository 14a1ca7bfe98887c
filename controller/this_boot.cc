#include "controller/this_boot.h"

#include "common/os/boot_id.h"

namespace muster::controller {

uint64_t BootNumber(absl::string_view boot_id) {
  if (boot_id.empty()) return 0;
  // FNV-1a, without the sign bit: SQLite's integers have one.
  uint64_t hash = 14695981039346656037u;
  for (const char c : boot_id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash >> 1;
}

uint64_t ThisBoot() { return BootNumber(BootId()); }

}  // namespace muster::controller
