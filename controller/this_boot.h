// A number for the boot that CLOCK_BOOTTIME counts from, so that a controller that starts anew
// knows whether the times since boot that it stored still count.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace muster::controller {

// The number of the kernel's id; other boots have other ones. 0: the id is empty.
uint64_t BootNumber(absl::string_view boot_id);

// Of this boot; 0: the kernel does not say.
uint64_t ThisBoot();

}  // namespace muster::controller
