// Tells a rank that waits for others whether all of them are still there.
//
// Used by WatchedGloo and WatchedDevice, whose own connections do not always tell. Each rank holds
// an open connection to each other one, on which nothing is said until a rank leaves: then how many
// operations of the gang it took part in to their end. The kernel closes the connections of a
// process that dies, whatever it died of. One thread. Knows no torch.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"
#include "worker/dist/base/key_value.h"
#include "worker/dist/peer_connections.h"

namespace muster::worker {

struct PeerWatchOptions {
  PeerConnectionsOptions connections;
  std::vector<int> names;  // what each rank is called in messages; empty: its number
};

class PeerWatch {
 public:
  // All ranks call it. Codes as ConnectPeers.
  static absl::StatusOr<std::unique_ptr<PeerWatch>> Join(KeyValue& store,
                                                         const PeerWatchOptions& options);

  // One that goes without Leave is lost to the others.
  ~PeerWatch() = default;

  // Does not wait. UNAVAILABLE, with a rank's name: it died, or it left before it had ended the
  // operation of this number (the gang's first is 1), which will then never end here either.
  absl::Status Check(uint64_t operation);

  // Tells the others that this rank has left in good order after so many operations.
  void Leave(uint64_t operations);

 private:
  struct Peer {
    int name = 0;
    UniqueFd fd;  // until the peer left, or died
    std::array<char, sizeof(uint64_t)> bytes = {};
    size_t heard = 0;
    std::optional<uint64_t> left_after;  // so many operations
    bool died = false;
  };

  explicit PeerWatch(std::vector<Peer> peers) : peers_(std::move(peers)) {}
  static void Hear(Peer& peer);

  std::vector<Peer> peers_;
};

}  // namespace muster::worker
