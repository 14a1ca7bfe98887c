#pragma once

#include "cli/commands/commands.h"

namespace muster::cli {

// `muster ckpt export`, below `ckpt`.
void AddCkptExport(CLI::App& ckpt, Session& session, Verb& verb);

}  // namespace muster::cli
