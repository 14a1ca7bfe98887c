// A TCP connection between each two ranks of a gang.
//
// Used by PeerWatch. Each rank listens at an address of its own until all have come, and connects
// to those before it; who is where, and a secret by which a rank tells its peers from strangers,
// stand in the store. Knows no torch.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/unique_fd.h"
#include "worker/dist/base/key_value.h"

namespace muster::worker {

struct PeerConnectionsOptions {
  int rank = 0;
  int world_size = 1;
  std::string address = "127.0.0.1";  // or name, of this rank's host, where the others reach it
  absl::Duration timeout = absl::Minutes(10);
  std::string prefix;  // of the keys in the store, fresh for each gang
};

// All ranks call it. A socket for each rank, that does not block; none for itself. A host that
// vanishes ends them within a minute. UNAVAILABLE: no connection to a rank, or no port at our
// address; DEADLINE_EXCEEDED: a rank did not come; other codes are the store's.
absl::StatusOr<std::vector<UniqueFd>> ConnectPeers(KeyValue& store,
                                                   const PeerConnectionsOptions& options);

}  // namespace muster::worker
