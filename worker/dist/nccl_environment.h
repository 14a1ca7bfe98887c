// What NCCL, and torch's part of it, are told by environment variables: they have no other way.
//
// Used by the trainer for a rank on a GPU. Knows no torch.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster::worker {

struct InterfaceAddress {
  std::string interface;  // "eth0"
  std::string address;    // "10.0.0.1", "fe80::1%eth0"
};

// NCCL listens at the interface that has `address`, the one at which the other ranks are told to
// reach this one, and not at the first that it finds. It chooses by itself where none of
// `interfaces` has it. A lost rank is an error of ours (WatchedDevice), not the end of the process.
// Pure.
std::map<std::string, std::string> NcclEnvironment(absl::string_view address,
                                                   const std::vector<InterfaceAddress>& interfaces);

// Sets that of this machine, but for variables that are set. `address` may be a host's name. Call
// while there is one thread.
void SetNcclEnvironment(const std::string& address);

}  // namespace muster::worker
