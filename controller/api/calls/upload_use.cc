#include "controller/api/calls/upload_use.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

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

absl::Status CheckWorkerMayFetch(const Snapshot& snapshot, const PeerNames& agent,
                                 const std::string& sha256) {
  if (!agent.has_value()) return absl::OkStatus();
  const auto is_here = [&](const Rank& rank) {
    return std::find(agent->begin(), agent->end(), rank.worker) != agent->end();
  };
  bool found = false;
  snapshot.jobs.ForEach([&](const Job& job) {
    if (found || job.settings->upload != sha256 || job.current == nullptr) return;
    found = std::any_of(job.current->ranks.begin(), job.current->ranks.end(), is_here);
  });
  if (found) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("upload ", absl::CHexEscape(sha256.substr(0, 64)),
                   ": the newest attempt of no job that runs in it has a rank on worker ",
                   absl::StrJoin(*agent, " or ")));
}

}  // namespace muster::controller
