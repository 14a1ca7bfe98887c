// Pictures as PNG bytes. No torch.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::worker {

// `rgb` holds height rows of width pixels of three bytes, without gaps. INVALID_ARGUMENT when its
// size is another, or a side is 0 or above 65,536; INTERNAL with libpng's words when it refuses.
absl::StatusOr<std::string> EncodePng(absl::string_view rgb, uint32_t width, uint32_t height);

}  // namespace muster::worker
