// Looks at what a command names on this machine before its ranks start: its folder, its program,
// the folder for its checkpoints. Any of these may lie on a file system that hangs, so this is a
// side thread's work, and says what it touches.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/base/path_watch.h"
#include "worker/agent/command/command_rules.h"

namespace muster::worker {

// What is looked for. It holds all that it needs.
struct CommandPathsRequest {
  v1::StartRanks start;
  CommandSettings settings;
  GangFacts facts;
  std::string upload;  // where the uploaded folder is unpacked
  std::string path;    // PATH of the command
  std::string worker;  // this one's name
};

struct CommandPaths {
  std::string directory;    // of a command without an image: where it begins
  std::string program;      // likewise: what it runs
  bool has_offers = false;  // the folder for its checkpoints is there
};

// Makes the folder for checkpoints where it can. What the command names and is not here is an error
// by AsMissing (command_rules.h). PERMISSION_DENIED: what a container would be shown leads
// elsewhere, over a link that a job planted.
absl::StatusOr<CommandPaths> FindCommandPaths(FileSystem& fs, const CommandPathsRequest& request,
                                              PathWatch& watch);

// INTERNAL unless the checkpoint that rank 0's agent chose is the job's own or one that the
// controller named. Pure.
absl::Status CheckResumePath(const v1::StartRanks& start, const GangFacts& facts);

}  // namespace muster::worker
