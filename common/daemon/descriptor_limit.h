// How many file descriptors this process may open. A daemon that runs out of them can take no
// connection and open no file, so it looks at its start.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Raises the soft bound as far as the hard one lets it, to `wanted` at most, and returns what holds
// then. FAILED_PRECONDITION when that is fewer than `least`; the message says what to change.
absl::StatusOr<uint64_t> RaiseDescriptorLimit(absl::string_view program, uint64_t least,
                                              uint64_t wanted);

}  // namespace muster
