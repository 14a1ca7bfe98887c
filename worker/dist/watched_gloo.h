// A c10d backend: Gloo, whose ranks fail within a second when one of them dies.
//
// Used by process_group.cc. Gloo by itself misses it now and then: when a connection breaks, its
// TCP pair tells the buffers that wait for their turn, but not one of which a part was sent
// (Pair::signalException passes over the `ubuf` of what is in `tx_`), and that waits for Gloo's
// timeout. So whoever waits here looks at a PeerWatch between times. What Gloo has not ended then,
// and cannot be made to, is left to it: its threads, connections and tensors stay until the process
// ends, which a rank that lost another does soon.
//
// allreduce and broadcast alone. Each Work must be waited for before the backend goes: a rank that
// left something open has failed, to the others. A lost rank is a c10::DistBackendError.
#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "worker/dist/peer_watch.h"

namespace muster::worker {

// `watch` is of the same ranks as `gloo`.
c10::intrusive_ptr<c10d::Backend> MakeWatchedGloo(c10::intrusive_ptr<c10d::Backend> gloo,
                                                  std::unique_ptr<PeerWatch> watch);

}  // namespace muster::worker
