// Says how each rank of an assignment is run here: its folder, cgroup and CPUs, and the trainer,
// program or container with its arguments and environment.
//
// It starts nothing, and touches nothing that a user names (command_paths.h has looked). One
// thread: the loop's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/base/event_loop.h"
#include "worker/agent/command/command_listener.h"
#include "worker/agent/command/command_rules.h"
#include "worker/agent/command/offer_folders.h"
#include "worker/agent/container/containers.h"
#include "worker/agent/folders/rank_folders.h"
#include "worker/agent/folders/work_folders.h"
#include "worker/agent/gang/gang_start.h"
#include "worker/agent/gang/rank.h"
#include "worker/agent/gang/supervisor_options.h"
#include "worker/agent/gang/supervisor_rules.h"
#include "worker/agent/process/rank_cgroup.h"

namespace muster::worker {

class RankPlanner {
 public:
  struct Deps {
    EventLoop& loop;
    FileSystem& fs;
    RankFolders& folders;
    const WorkFolders& work;
    Containers& containers;
  };

  // What is in `deps`, and `options`, outlive it; it outlives the ranks that it planned.
  RankPlanner(const Deps& deps, const SupervisorOptions& options)
      : deps_(deps), options_(options), listeners_(options.sockets_root) {}
  RankPlanner(const RankPlanner&) = delete;
  RankPlanner& operator=(const RankPlanner&) = delete;

  // Ranks get cgroups of their own from now on, where they can be made; removes what an earlier
  // agent of this name left.
  void OpenCgroups();
  // Processes that still live in the cgroups of an earlier agent of this name. Call after
  // OpenCgroups and before a rank is planned.
  std::vector<ProcessId> LeftInCgroups() const;

  absl::StatusOr<RankPlan> PlanTrainer(const v1::StartRanks& start,
                                       const v1::StartRanks::Rank& rank,
                                       const SpecSettings& settings);
  // Of a gang that is ready. Takes its port for rank 0.
  absl::StatusOr<RankPlan> PlanCommand(GangStart& gang, const v1::StartRanks::Rank& rank);

  // For a program beside a rank; null: none can be made.
  std::shared_ptr<RankCgroup> MakeExecCgroup();

 private:
  // What is the same for both kinds of rank, and its folder.
  absl::StatusOr<RankPlan> Prepare(const v1::StartRanks& start, const v1::StartRanks::Rank& rank,
                                   const SpecSettings& settings);
  absl::StatusOr<std::unique_ptr<RankCgroup>> MakeCgroup(const RankPlan& plan);
  // Fills what runs the command: as it is, or in its container.
  void PrepareProgram(const GangStart& gang, const v1::StartRanks::Rank& rank,
                      const CommandPlace& place, RankPlan& plan);
  absl::Status PrepareContainer(const GangStart& gang, const v1::StartRanks::Rank& rank,
                                const CommandPlace& place, RankPlan& plan);
  // The slots whose GPUs a command's rank sees.
  std::vector<uint32_t> VisibleSlots(const v1::StartRanks& start,
                                     const v1::StartRanks::Rank& rank) const;
  std::vector<const v1::Slot*> GpusAmong(const std::vector<uint32_t>& slots) const;

  const Deps deps_;
  const SupervisorOptions& options_;
  CommandListeners listeners_;
  std::string cgroups_folder_;            // of this process when it began; "": none is known
  std::unique_ptr<RankCgroups> cgroups_;  // where they can be made
};

}  // namespace muster::worker
