// `muster join-token`: by what machines become workers; and what `muster nodes revoke` does.
#pragma once

#include <string>
#include <vector>

#include "cli/commands/commands.h"

namespace muster::cli {

void AddJoinToken(CLI::App& app, Session& session, Verb& verb);

// Refuses the certificates that these workers have. Goes on after an error; the first is returned.
absl::StatusOr<ExitCode> RevokeCertificates(const std::vector<std::string>& names,
                                            Session& session);

}  // namespace muster::cli
