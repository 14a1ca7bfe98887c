// Whether a network that somebody else made fits the data: tried out before anybody trains it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "worker/models/base/model.h"

namespace muster::worker {

// Runs two samples of zeros through the model, in evaluation mode, and leaves it in training mode.
// `tokens`: samples are rows of tokens, each to be answered. INVALID_ARGUMENT with both shapes when
// the output is not [2, classes] or [2, T, classes]. Throws what the model throws.
absl::Status CheckOutput(Model& model, const ModelContext& context, bool tokens);

}  // namespace muster::worker
