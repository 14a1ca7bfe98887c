// Writes a picture as a PNG, by libpng. Used by `muster-data show --out`. Any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/data/augment/picture.h"

namespace muster::worker {

// The file's bytes, of a picture of 1 or 3 channels, its values from 0 to 1; those beyond are cut
// to that. INTERNAL with libpng's words.
absl::StatusOr<std::string> EncodeAsPng(const Picture& picture);

}  // namespace muster::worker
