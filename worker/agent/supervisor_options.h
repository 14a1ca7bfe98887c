// What a supervisor is told when it begins.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/containers.h"

namespace muster::worker {

struct SupervisorOptions {
  std::string ranks_root;    // a folder per rank is made in it
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
};

}  // namespace muster::worker
