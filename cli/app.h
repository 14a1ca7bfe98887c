// The command line as a whole: from arguments to an exit code.
#pragma once

#include <string>
#include <vector>

#include "cli/session/host.h"
#include "common/fs/file_system.h"

namespace muster::cli {

// Runs one `muster` command; `args` without the program's name. Prints results and errors to the
// host.
int RunMuster(const std::vector<std::string>& args, Host& host, FileSystem& fs);

}  // namespace muster::cli
