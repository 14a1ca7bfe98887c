// The verbs about networks and recipes: they ask muster-trainer, no controller.
#pragma once

#include "cli/commands/commands.h"

namespace muster::cli {

void AddModel(CLI::App& app, Session& session, Verb& verb);
void AddCheck(CLI::App& app, Session& session, Verb& verb);

}  // namespace muster::cli
