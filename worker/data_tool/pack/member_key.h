// The key of a sample as a tar's member can carry it. Pure.
//
// Readers of WebDataset take a key from a member's name up to the first dot of its base name. A key
// with a dot there ("train.rec:00000012") is written with '-' instead.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::worker {

// INVALID_ARGUMENT for one that no member's name gives back: an empty base name, a zero byte, one
// that begins with "./".
absl::StatusOr<std::string> MemberKey(absl::string_view key);

}  // namespace muster::worker
