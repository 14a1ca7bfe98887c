// What to say beside words and flags that the command line does not know: the nearest one that it
// does, or the verb by which we spell what kubectl, Slurm and Docker call otherwise. Pure.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace muster::cli {

// INVALID_ARGUMENT with a hint. `app`: the whole command line, after it has failed to parse `args`;
// `fault`: how. What was left over is named first: it is why something else seems to be missing.
absl::Status UsageError(const CLI::App& app, const std::vector<std::string>& args,
                        const CLI::ParseError& fault);

// Whether `args` ask for a verb that there is not, be it only for its help.
bool HasUnknownVerb(const CLI::App& app);

// "nodes drain" for the verb below `nodes`; empty for the program itself.
std::string VerbPath(const CLI::App& verb);

// Flags and arguments that `verb` takes itself, then those that it shares with what is above it.
std::vector<const CLI::Option*> OptionsInReach(const CLI::App& verb);

// Verbs directly below that people are told of.
std::vector<const CLI::App*> ShownVerbs(const CLI::App& app);

}  // namespace muster::cli
