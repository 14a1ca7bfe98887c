#pragma once

#include "cli/commands/commands.h"

namespace muster::cli {

// `muster ckpt gc`, below `ckpt`.
void AddCkptGc(CLI::App& ckpt, Session& session, Verb& verb);

}  // namespace muster::cli
