#include "controller/rules/workers/worker_name_rules.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace muster::controller {
namespace {

constexpr size_t kShownIdentityBytes = 4;

bool IsIn(const std::vector<std::string>& incarnations, const std::string& incarnation) {
  return std::find(incarnations.begin(), incarnations.end(), incarnation) != incarnations.end();
}

// It announced that it would leave, and left, with no slot held. One that only takes no work, or
// that has not come back to this controller, may live and have a lease.
bool HasDrainedAndLeft(const Worker& worker) {
  return worker.draining && !worker.pulse.connected && worker.pulse.leaving &&
         worker.pulse.holders.empty();
}

std::string FolderName(const std::string& identity) {
  if (identity.empty()) return "an unknown data folder";
  return absl::StrCat("data folder ",
                      absl::BytesToHexString(identity.substr(0, kShownIdentityBytes)));
}

}  // namespace

absl::Status MayTakeName(const Worker& holder, const WorkerHello& claimant) {
  if (IsIn(holder.past_incarnations, claimant.incarnation)) {
    return absl::AlreadyExistsError(
        absl::StrCat("worker ", claimant.worker,
                     ": a newer agent holds this name; give each agent its own --name"));
  }
  // An agent vouches only for earlier lives of its own data folder, which have the same identity.
  // The row of a holder of an older version has none: there this is not checked.
  const bool same_folder = holder.identity.empty() || claimant.identity == holder.identity;
  const bool shown_dead = same_folder && IsIn(claimant.predecessors, holder.incarnation);
  if (shown_dead || holder.lost || HasDrainedAndLeft(holder)) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      "worker ", claimant.worker, ": an agent with ", FolderName(holder.identity),
      " holds this name, and was not shown to be dead; this one has ",
      FolderName(claimant.identity),
      ". If both are to run, give each its own --name; if the other is gone, this one gets the"
      " name when that one's lease is over"));
}

}  // namespace muster::controller
