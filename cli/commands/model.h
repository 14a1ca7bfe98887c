// The verbs about networks: they ask muster-trainer, no controller.
#pragma once

#include "cli/commands/commands.h"

namespace muster::cli {

void AddModel(CLI::App& app, Session& session, Verb& verb);

}  // namespace muster::cli
