// Whose an uploaded folder is to use. Its SHA-256 is no secret: it stands in every job that runs in
// it, and who has a copy can work it out.
#pragma once

#include <functional>
#include <string>

#include "controller/api/calls/service_call.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

// For who may not, it is as one that is not there.
using MayUseUpload = std::function<bool(const Caller& caller, const std::string& sha256)>;

// Whether `caller` may read a job that runs in it: one in memory, since folders are not kept for as
// long as jobs that have left it. True of who may read everything.
bool ReadsJobOf(const CallGate& gate, const Caller& caller, const Snapshot& snapshot,
                const std::string& sha256);

}  // namespace muster::controller
