// A c10d backend for ranks without GPUs on several hosts: shared memory inside each host, Gloo
// between the hosts.
//
// Used by process_group.cc and ddp.cc, as SharedMemoryBackend is. A sum is taken in three stages:
// the numbers of one host in the order of its ranks; the hosts' sums by Gloo, whose order depends
// on a number's place and the number of hosts alone; the result is then read from shared memory.
// So every rank gets the same bits, and every run of the same layout of hosts with the same buckets
// does. What crosses the network is one sum a host, cut over as many ranks as the smallest host
// has ("lanes"), each with its own connections; small sums go over the first lane.
//
// allreduce and allreduce_coalesced return while Gloo still works: every Work must be waited for,
// before the backend goes and at the same place among all calls on every rank; the tensors are its
// own until then. It has no getFuture. A lost or stopped peer of this host is a
// c10::DistBackendError, one of another host what WatchedGloo throws; the ranks between them then
// leave, and so take all others with them.
#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "worker/dist/base/host_layout.h"
#include "worker/dist/shared_memory/shared_memory_gang.h"

namespace muster::worker {

inline constexpr char kTwoLevelName[] = "two_level";

struct TwoLevelParts {
  int rank = 0;
  int world_size = 1;
  HostLayout layout;
  std::unique_ptr<SharedMemoryGang> host;  // the ranks of this host, in the order of the layout
  // This rank's lane: one rank of each host, in the order of the layout. Null when this rank's
  // place in its host is not below layout.FewestRanks().
  c10::intrusive_ptr<c10d::Backend> lane;
};

c10::intrusive_ptr<c10d::Backend> MakeTwoLevelBackend(TwoLevelParts parts);

}  // namespace muster::worker
