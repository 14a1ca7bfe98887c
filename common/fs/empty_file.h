// Takes all content out of a file of this machine; who appends to it goes on at the new end. Errors
// as in file_system.h.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace muster {

absl::Status EmptyFile(const std::string& path);

}  // namespace muster
