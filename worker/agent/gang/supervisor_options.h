// What a supervisor is told when it begins.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/container/containers.h"

namespace muster::worker {

struct SupervisorOptions {
  std::string ranks_root;    // a folder per rank is made in it
  std::string trash_root;    // what must go from the others, on their file system
  std::string work_root;     // a folder per attempt with an upload
  std::string upload_cache;  // their archives
  std::string sockets_root;  // and here a socket per slot; it is there
  // What no other agent of this machine is called, for its cgroups; empty: it makes none.
  std::string cgroup_name;
  std::string trainer;  // path of muster-trainer
  bool allow_commands = false;
  Containers::Options containers;
  std::string worker_name;
  std::string advertise_address;
  std::vector<v1::Slot> slots;
  std::vector<std::string> base_environment;  // NAME=value, for every rank
  // From SIGKILL until a rank is called unkillable, and its worker is drained.
  absl::Duration kill_patience;
  // With a path that a job names, until it is said to hang and what waits for it has failed.
  absl::Duration path_patience = absl::Seconds(30);
  std::optional<mode_t> file_mask;  // the ranks' umask; nothing: the agent's
};

}  // namespace muster::worker
