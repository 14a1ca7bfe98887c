#include "controller/api/calls/upload_use.h"

namespace muster::controller {

bool ReadsJobOf(const CallGate& gate, const Caller& caller, const Snapshot& snapshot,
                const std::string& sha256) {
  const MayRead reads = gate.ReadsOf(caller);
  if (reads == nullptr) return true;
  bool found = false;
  snapshot.jobs.ForEach([&](const Job& job) {
    found = found || (job.settings->upload == sha256 && reads(job.settings->project));
  });
  return found;
}

}  // namespace muster::controller
