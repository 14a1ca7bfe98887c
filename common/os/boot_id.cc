#include "common/os/boot_id.h"

#include <fstream>

namespace muster {

std::string BootId() {
  // A stream, since the kernel gives the size of its own files as 0.
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

}  // namespace muster
