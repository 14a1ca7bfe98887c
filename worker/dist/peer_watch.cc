#include "worker/dist/peer_watch.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::worker {

absl::StatusOr<std::unique_ptr<PeerWatch>> PeerWatch::Join(KeyValue& store,
                                                           const PeerWatchOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(std::vector<UniqueFd> sockets, ConnectPeers(store, options.connections));
  std::vector<Peer> peers;
  for (size_t rank = 0; rank < sockets.size(); ++rank) {
    if (!sockets[rank].valid()) continue;  // this one
    Peer& peer = peers.emplace_back();
    peer.name = options.names.empty() ? static_cast<int>(rank) : options.names[rank];
    peer.fd = std::move(sockets[rank]);
  }
  return std::unique_ptr<PeerWatch>(new PeerWatch(std::move(peers)));
}

absl::Status PeerWatch::Check(uint64_t operation) {
  for (Peer& peer : peers_) Hear(peer);
  // The dead first: others may have left because of them.
  for (const Peer& peer : peers_) {
    if (peer.died)
      return absl::UnavailableError(absl::StrCat("rank ", peer.name, " died or was cut off"));
  }
  for (const Peer& peer : peers_) {
    if (peer.left_after.has_value() && *peer.left_after < operation)
      return absl::UnavailableError(absl::StrCat("rank ", peer.name, " has left the gang"));
  }
  return absl::OkStatus();
}

void PeerWatch::Hear(Peer& peer) {
  while (peer.fd.valid()) {
    const ssize_t got = ::recv(peer.fd.get(), peer.bytes.data() + peer.heard,
                               peer.bytes.size() - peer.heard, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      peer.died = true;
      peer.fd.Reset();
      return;
    }
    peer.heard += static_cast<size_t>(got);
    if (peer.heard < peer.bytes.size()) continue;
    uint64_t operations = 0;
    std::memcpy(&operations, peer.bytes.data(), sizeof operations);
    peer.left_after = operations;
    peer.fd.Reset();
  }
}

void PeerWatch::Leave(uint64_t operations) {
  for (Peer& peer : peers_) {
    // Who is gone need not know, and a connection on which nothing was said before has room.
    if (peer.fd.valid())
      (void)::send(peer.fd.get(), &operations, sizeof operations, MSG_DONTWAIT | MSG_NOSIGNAL);
    peer.fd.Reset();
  }
}

}  // namespace muster::worker
