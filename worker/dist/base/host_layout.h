// Which ranks of a gang are on one host, so that they may share memory.
//
// Used by process_group.cc to choose the transport, and by SharedMemoryGang. Knows no torch.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/dist/base/key_value.h"

namespace muster::worker {

// Equal for two processes exactly when one can find the other under /proc: the kernel that was
// booted and the PID namespace.
std::string HostIdentity();

// Every rank is on one host; the same on all ranks.
struct HostLayout {
  std::vector<std::vector<int>> hosts;  // ranks of each, ascending; hosts by their first rank

  // The index of the host of a rank that is there.
  int HostOf(int rank) const;
  size_t FewestRanks() const;
  size_t MostRanks() const;
  // "0-3,4-7": the ranks of each host, where they follow each other; else "0+2,1+3".
  std::string Text() const;
};

struct HostLayoutOptions {
  int rank = 0;
  int world_size = 1;
  // Ranks of one kernel that are reached under different addresses count as of different hosts.
  std::string address;
  absl::Duration timeout = absl::Minutes(10);
  std::string prefix;  // of the keys in the store, fresh for each gang
};

// Raised when ranks of two versions would meet in other collectives than each other. 3: batch
// norm's rehearsal is not run by a gang that resumes; over NCCL ranks watch each other and divide
// fp16 gradients before they send them; rank 0 tells the others the hosts. 4: ranks tell each other
// with a step's gradients that they have no batch for it.
inline constexpr int kGangProtocol = 4;

// All ranks call it. Fails as the store fails. FAILED_PRECONDITION: a rank is of a version with
// another gang protocol.
absl::StatusOr<HostLayout> FindHosts(KeyValue& store, const HostLayoutOptions& options);

// Pure: of the identities of ranks 0, 1, ...
HostLayout LayoutOf(const std::vector<std::string>& identities);

}  // namespace muster::worker
