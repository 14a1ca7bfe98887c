// What the shells' completion asks of a controller, and `muster completion SHELL`.
#pragma once

#include <string>
#include <vector>

#include "cli/commands/commands.h"

namespace muster::cli {

void AddCompletion(CLI::App& app, Session& session, Verb& verb);

// `muster __complete WORDS...`: what could stand in the last word's place. Somebody waits at the
// keyboard: a controller that does not answer within a quarter of a second gives nothing.
void PrintCompletion(const CLI::App& app, const std::vector<std::string>& words, Session& session);

}  // namespace muster::cli
