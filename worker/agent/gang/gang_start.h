// Brings a command's ranks on this worker to the point where they may start: what all ranks of the
// gang must agree on (GangFacts: the port, and the checkpoint to resume from) is decided by the
// agent of rank 0, which publishes it in the gang's rendezvous store; the other agents wait for it
// there. A gang that is all here needs no store.
//
// Lives on the event loop; one thread. What is ready, or cannot be, goes to `done`.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/unique_fd.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/base/rank_key.h"
#include "worker/agent/command/command_paths.h"
#include "worker/agent/command/command_rules.h"
#include "worker/agent/gang/supervisor_rules.h"
#include "worker/link/link_messages.h"

namespace muster::worker {

struct GangStart {
  v1::StartRanks start;
  SpecSettings settings;
  GangFacts facts;
  CommandPaths paths;  // once it is ready
  UniqueFd held_port;  // where rank 0 is here
};

class GangStarts {
 public:
  // How long the other agents wait for rank 0's, which may have a folder or an image to fetch: as
  // long as the controller lets anybody wait. A start that does not get on it ends before.
  static constexpr absl::Duration kFactsPatience = absl::Hours(1);

  struct Callbacks {
    // One operation on the gang's store in the name of this rank; its answer comes to OnReply.
    std::function<void(const v1::Fence& fence, uint32_t rank, StoreLine line)> request;
    // Brings what the command runs in, where that is an uploaded folder or an image; how that went
    // comes to OnFetched, on a later turn.
    std::function<void(const RankKey& key, const v1::Fence& fence, const CommandSettings& command)>
        fetch;
    // Looks for the checkpoint to resume from; what it finds comes to OnResume, on a later turn.
    std::function<void(const RankKey& key, const v1::StartRanks& start)> find_resume;
    // Looks at what the command names here; what it finds comes to OnPaths, on a later turn.
    std::function<void(const RankKey& key, const GangStart& gang)> find_paths;
    // OK: its ranks may start now. Else why they cannot.
    std::function<void(GangStart gang, absl::Status status)> done;
  };
  GangStarts(std::string advertise_address, Callbacks callbacks)
      : advertise_address_(std::move(advertise_address)), callbacks_(std::move(callbacks)) {}

  // Requires that `settings` has a command. `done` may come within this call.
  void Begin(const v1::StartRanks& start, SpecSettings settings);
  void OnFetched(const RankKey& key, const absl::Status& status);
  // False: the answer is for somebody else.
  bool OnReply(const RankKey& key, const StoreReplyLine& reply);
  void OnResume(const RankKey& key, const absl::Status& status, const std::string& path,
                int64_t step);
  void OnPaths(const RankKey& key, absl::StatusOr<CommandPaths> paths);
  // It is assigned here and not ready.
  bool Waits(const RankKey& key) const { return waiting_.contains(key); }
  // Gives up the gangs that `wanted` accepts and returns them; nothing comes of them any more.
  std::vector<GangStart> TakeIf(const std::function<bool(const v1::Fence&)>& wanted);

  // Ranks that are assigned here and wait.
  void ForEachRank(
      const std::function<void(const v1::Fence&, const v1::StartRanks::Rank&)>& visit) const;

 private:
  void Agree(const RankKey& key);
  void Publish(const RankKey& key);
  void FindPaths(const RankKey& key) { callbacks_.find_paths(key, waiting_.at(key)); }
  void Finish(const RankKey& key, absl::Status status);

  const std::string advertise_address_;
  const Callbacks callbacks_;
  std::map<RankKey, GangStart> waiting_;  // by the first of its ranks here
};

}  // namespace muster::worker
