// JobSettings (all but spec and checkpoint_root, which have columns of their own) as one JSON
// text. Private to controller/store. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "controller/model/types/job_types.h"

namespace muster::controller {

std::string EncodeSettings(const JobSettings& settings);

// A key that is missing leaves its default, so that older rows can be read. DATA_LOSS: broken.
absl::StatusOr<JobSettings> DecodeSettings(absl::string_view text);

}  // namespace muster::controller
