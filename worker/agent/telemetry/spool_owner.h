// <spool folder>/controller: which controller's jobs the spool is of, so that another one gets
// nothing of it also where the agent's own record of its controller was removed.
#pragma once

#include <string>

#include "common/fs/file_system.h"

namespace muster::worker {

// The id of that controller; "": nobody wrote it, or it cannot be read.
std::string ReadSpoolOwner(FileSystem& fs, const std::string& spool);

// Where that cannot be written, nothing is left there: what an earlier one wrote would be wrong.
void WriteSpoolOwner(FileSystem& fs, const std::string& spool, const std::string& controller);

}  // namespace muster::worker
