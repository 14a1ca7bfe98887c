// `muster ckpt import`, which ckpt.cc adds to its verb.
#pragma once

#include "cli/commands/commands.h"

namespace muster::cli {

void AddCkptImport(CLI::App& ckpt, Session& session, Verb& verb);

}  // namespace muster::cli
