// The verbs that stay in the foreground and are nothing without it: `run` and `top`.
#pragma once

#include "cli/commands/commands.h"

namespace muster::cli {

void AddRun(CLI::App& app, Session& session, Verb& verb);
void AddTop(CLI::App& app, Session& session, Verb& verb);

}  // namespace muster::cli
