// `muster ckpt pin`, `unpin` and `rm`: which checkpoints are kept.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "cli/commands/commands.h"

namespace muster::cli {

// Adds the three below `ckpt`.
void AddCkptControl(CLI::App& ckpt, Session& session, Verb& verb);

// Does it to one, and says how that one stands then.
absl::StatusOr<v1::CheckpointInfo> ControlCheckpoint(uint64_t id,
                                                     v1::ControlCheckpointRequest::Verb verb,
                                                     bool force, Session& session);

}  // namespace muster::cli
