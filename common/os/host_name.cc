#include "common/os/host_name.h"

#include <unistd.h>

namespace muster {

std::string HostName() {
  char buffer[256] = {};
  return ::gethostname(buffer, sizeof buffer - 1) == 0 ? buffer : "";
}

}  // namespace muster
