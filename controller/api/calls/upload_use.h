// Whose an uploaded folder is to use. Its SHA-256 is no secret: it stands in every job that runs in
// it, and who has a copy can work it out.
#pragma once

#include <functional>
#include <string>

#include "common/rpc/peer_certificate.h"
#include "controller/api/calls/service_call.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

// For who may not, it is as one that is not there.
using MayUseUpload = std::function<bool(const Caller& caller, const std::string& sha256)>;

// Whether `caller` may read a job that runs in it: one in memory, since folders are not kept for as
// long as jobs that have left it. True of who may read everything.
bool ReadsJobOf(const CallGate& gate, const Caller& caller, const Snapshot& snapshot,
                const std::string& sha256);

// PERMISSION_DENIED: an agent may not have it.
using MayFetchUpload =
    std::function<absl::Status(const PeerNames& agent, const std::string& sha256)>;

// OK: the newest attempt of a job that runs in it, live or ended, has a rank on a worker of these
// names. Agents fetch for the ranks that they are to start, whose attempt is in the snapshot by
// then. PERMISSION_DENIED otherwise. OK also of who shows no certificate: there is no TLS then.
absl::Status CheckWorkerMayFetch(const Snapshot& snapshot, const PeerNames& agent,
                                 const std::string& sha256);

}  // namespace muster::controller
