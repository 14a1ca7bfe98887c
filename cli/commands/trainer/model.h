// The verbs about networks, recipes and data: they ask muster-trainer and muster-data, no
// controller.
#pragma once

#include "cli/commands/commands.h"

namespace muster::cli {

void AddModel(CLI::App& app, Session& session, Verb& verb);
void AddData(CLI::App& app, Session& session, Verb& verb);
void AddCheck(CLI::App& app, Session& session, Verb& verb);

}  // namespace muster::cli
