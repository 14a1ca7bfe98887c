#include "worker/agent/gang/rank_planner.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "worker/agent/process/process_scan.h"
#include "worker/link/launch.h"

namespace muster::worker {
namespace {

// When memory is short the kernel ends a rank rather than the agent, and rather than what runs on
// the machine beside them.
constexpr int kRankOomScore = 500;
// Processes and threads that a user's limit leaves to the agent.
constexpr uint64_t kProcessHeadroom = 128;

Launch MakeLaunch(const v1::StartRanks& start, const v1::StartRanks::Rank& rank,
                  const SupervisorOptions& options, const std::string& folder, bool on_gpu) {
  Launch launch;
  launch.job_id = start.fence().job_id();
  launch.job_name = start.job_name();
  launch.attempt = start.fence().attempt();
  launch.generation = start.fence().generation();
  launch.term = start.fence().term();
  launch.rank = rank.rank();
  launch.world_size = start.world_size();
  launch.local_rank = rank.local_rank();
  launch.local_world_size = static_cast<uint32_t>(start.ranks_size());
  launch.advertise_address = options.advertise_address;
  // CUDA_VISIBLE_DEVICES shows the rank its own device only.
  launch.gpu = on_gpu ? 0 : -1;
  launch.checkpoint_root = start.checkpoint_root();
  launch.root = start.root();
  launch.root_identity = start.root_identity();
  launch.work_dir = folder;
  launch.allow_plugins = options.allow_commands;
  for (const v1::StartRanks::Resume& resume : start.resume()) {
    launch.resume.push_back({resume.path(), resume.step(), resume.manifest_sha256(), resume.best(),
                             resume.job_id(), resume.job_name()});
  }
  launch.spec_json = start.spec_json();
  return launch;
}

// As CUDA_VISIBLE_DEVICES takes them.
std::string JoinUuids(const std::vector<const v1::Slot*>& gpus) {
  return absl::StrJoin(gpus, ",", [](std::string* text, const v1::Slot* gpu) {
    absl::StrAppend(text, gpu->uuid());
  });
}

// RLIMIT_NPROC, which bounds the ranks where no cgroup does, is no bound for root.
void WarnOfNoBound() {
  if (::getuid() != 0) return;
  Log(LogLevel::kWarning, "processes_unbounded",
      {{"reason",
        "the agent runs as root, and its cgroup has no pids controller of cgroup v2 that it may "
        "divide: a rank that forks without end can take all processes of this machine; run the "
        "agent as another user, or as a systemd unit with Delegate=yes"}});
}

}  // namespace

void RankPlanner::OpenCgroups() {
  if (options_.cgroup_name.empty()) return WarnOfNoBound();
  const auto open = [this]() -> absl::StatusOr<std::unique_ptr<RankCgroups>> {
    MUSTER_ASSIGN_OR_RETURN(cgroups_folder_, RankCgroups::OwnFolder());
    return RankCgroups::OpenAt(cgroups_folder_, options_.cgroup_name, options_.slots.size());
  };
  absl::StatusOr<std::unique_ptr<RankCgroups>> cgroups = open();
  if (cgroups.ok()) cgroups_ = *std::move(cgroups);
  const uint64_t most_processes = cgroups_ == nullptr ? 0 : cgroups_->most_processes();
  Log(LogLevel::kInfo, "cgroups",
      {{"used", cgroups_ != nullptr},
       {"memory", cgroups_ != nullptr && cgroups_->can_limit_memory()},
       {"processes", most_processes},
       {"reason", cgroups.status().message()}});
  if (most_processes == 0) WarnOfNoBound();
}

std::vector<ProcessId> RankPlanner::LeftInCgroups() const {
  if (cgroups_folder_.empty()) return {};
  return RankCgroups::ProcessesBelow(cgroups_folder_, options_.cgroup_name);
}

absl::StatusOr<std::unique_ptr<RankCgroup>> RankPlanner::MakeCgroup(const RankPlan& plan) {
  if (cgroups_ == nullptr) return nullptr;
  return cgroups_->Make(cgroups_->can_limit_memory() ? plan.memory_bytes : 0);
}

std::vector<uint32_t> RankPlanner::VisibleSlots(const v1::StartRanks& start,
                                                const v1::StartRanks::Rank& rank) const {
  // With one GPU each, scripts written for torchrun take device LOCAL_RANK: so each rank sees those
  // of all its gang here, in that order. With more, each sees its own.
  std::map<uint32_t, uint32_t> by_local_rank;
  for (const v1::StartRanks::Rank& one : start.ranks()) {
    if (one.slots_size() != 1) return {rank.slots().begin(), rank.slots().end()};
    by_local_rank[one.local_rank()] = one.slots(0);
  }
  std::vector<uint32_t> slots;
  for (const auto& [local_rank, slot] : by_local_rank) slots.push_back(slot);
  return slots;
}

std::vector<const v1::Slot*> RankPlanner::GpusAmong(const std::vector<uint32_t>& slots) const {
  std::vector<const v1::Slot*> gpus;
  for (const uint32_t index : slots) {
    const v1::Slot* slot = FindSlot(options_.slots, index);
    if (slot != nullptr && slot->kind() == v1::GPU) gpus.push_back(slot);
  }
  return gpus;
}

absl::StatusOr<RankPlan> RankPlanner::Prepare(const v1::StartRanks& start,
                                              const v1::StartRanks::Rank& rank,
                                              const SpecSettings& settings) {
  RankPlan plan;
  plan.fence = start.fence();
  plan.rank = rank.rank();
  plan.memory_bytes = settings.memory_bytes;
  plan.slots.assign(rank.slots().begin(), rank.slots().end());
  // podman makes a cgroup of its own for each container; in the rank's it would itself be short of
  // memory.
  const std::string image = settings.command.has_value() ? settings.command->image : "";
  const bool by_podman =
      !image.empty() && deps_.containers.runtimes().For(image) == ContainerRuntime::kPodman;
  if (!by_podman) {
    MUSTER_ASSIGN_OR_RETURN(plan.cgroup, MakeCgroup(plan));
  }
  if (plan.cgroup != nullptr) plan.command.cgroup_fd = plan.cgroup->fd();
  MUSTER_ASSIGN_OR_RETURN(plan.folder, deps_.folders.Make(plan.key()));
  plan.controller_lost_timeout = settings.controller_lost_timeout;
  plan.command.log_directory = plan.folder;
  // The kernel tells whose a process of a cgroup is; else the leader keeps what its rank leaves.
  plan.command.keeps_orphans = plan.cgroup == nullptr && !by_podman;
  plan.command.file_mask = options_.file_mask;
  plan.command.oom_score_adj = kRankOomScore;
  plan.command.process_headroom = kProcessHeadroom;
  plan.cpus = ClaimCpus(settings.cpus);
  plan.command.cpus = plan.cpus.cpus;
  if (settings.cpus > plan.cpus.cpus.size()) {
    Log(LogLevel::kWarning, "cpus_shared",
        {{"job", plan.fence.job_id()}, {"rank", plan.rank}, {"wanted", settings.cpus}});
  }
  return plan;
}

absl::StatusOr<RankPlan> RankPlanner::PlanTrainer(const v1::StartRanks& start,
                                                  const v1::StartRanks::Rank& rank,
                                                  const SpecSettings& settings) {
  MUSTER_ASSIGN_OR_RETURN(RankPlan plan, Prepare(start, rank, settings));
  const std::string visible_gpus = JoinUuids(GpusAmong(plan.slots));
  const std::string launch_path = plan.folder + "/launch.json";
  plan.command.program = options_.trainer;
  plan.command.argv = {options_.trainer, "--launch", launch_path};
  plan.command.directory = plan.folder;
  // The tag first, where a scan of /proc finds it however large the rest is.
  plan.command.environment = {absl::StrCat(kRankDirVariable, "=", plan.folder)};
  plan.command.environment.insert(plan.command.environment.end(), options_.base_environment.begin(),
                                  options_.base_environment.end());
  plan.command.environment.push_back(absl::StrCat("OMP_NUM_THREADS=", settings.threads_per_rank));
  plan.command.environment.push_back(absl::StrCat("CUDA_VISIBLE_DEVICES=", visible_gpus));
  if (start.array_id() != 0) {
    plan.command.environment.push_back(absl::StrCat("MUSTER_ARRAY_ID=", start.array_id()));
    plan.command.environment.push_back(absl::StrCat("MUSTER_ARRAY_INDEX=", start.array_index()));
  }
  const Launch launch = MakeLaunch(start, rank, options_, plan.folder, !visible_gpus.empty());
  MUSTER_RETURN_IF_ERROR(WriteFileAtomically(deps_.fs, launch_path, EncodeLaunch(launch)));
  return plan;
}

absl::StatusOr<RankPlan> RankPlanner::PlanCommand(GangStart& gang,
                                                  const v1::StartRanks::Rank& rank) {
  MUSTER_ASSIGN_OR_RETURN(RankPlan plan, Prepare(gang.start, rank, gang.settings));
  plan.is_command = true;
  plan.is_alone = gang.start.world_size() == 1;
  if (rank.rank() == 0) plan.held_port = std::move(gang.held_port);
  CommandPlace place;
  place.worker = options_.worker_name;
  place.folder = plan.folder;
  place.threads = std::max(1u, gang.settings.cpus);
  place.checkpoint_directory = OfferFolders::Path(gang.start.checkpoint_root());
  MUSTER_ASSIGN_OR_RETURN(CommandListener * listener, listeners_.ForSlot(plan.slots.front()));
  plan.socket = std::make_unique<CommandSocket>(deps_.loop, *listener);
  place.socket = plan.socket->path();
  plan.ranks_root = options_.ranks_root;
  plan.job_name = gang.start.job_name();
  plan.checkpoint_root = gang.start.checkpoint_root();
  plan.root = {.path = gang.start.root(), .identity = gang.start.root_identity()};
  place.visible_slots = VisibleSlots(gang.start, rank);
  place.visible_gpus = JoinUuids(GpusAmong(place.visible_slots));
  plan.command.link = false;
  if (gang.settings.command->image.empty()) {
    PrepareProgram(gang, rank, place, plan);
  } else {
    MUSTER_RETURN_IF_ERROR(PrepareContainer(gang, rank, place, plan));
  }
  return plan;
}

std::shared_ptr<RankCgroup> RankPlanner::MakeExecCgroup() {
  if (cgroups_ == nullptr) return nullptr;
  absl::StatusOr<std::unique_ptr<RankCgroup>> cgroup = cgroups_->MakeBeside();
  return cgroup.ok() ? std::shared_ptr<RankCgroup>(*std::move(cgroup)) : nullptr;
}

void RankPlanner::PrepareProgram(const GangStart& gang, const v1::StartRanks::Rank& rank,
                                 const CommandPlace& place, RankPlan& plan) {
  const CommandSettings& settings = *gang.settings.command;
  plan.command.directory = gang.paths.directory;
  plan.command.program = gang.paths.program;
  plan.command.argv = settings.argv;
  plan.command.environment =
      CommandEnvironment(options_.base_environment, gang.start, rank, settings, gang.facts, place);
  // What it may hand over as a checkpoint: what it writes in its folders.
  plan.offer_roots = {place.checkpoint_directory, plan.folder, gang.paths.directory};
}

absl::Status RankPlanner::PrepareContainer(const GangStart& gang, const v1::StartRanks::Rank& rank,
                                           const CommandPlace& place, RankPlan& plan) {
  const CommandSettings& settings = *gang.settings.command;
  ContainerRun run;
  run.image = settings.image;
  run.argv = settings.argv;
  run.workdir = settings.workdir;
  // The rest of the environment is the image's.
  run.environment = CommandEnvironment({}, gang.start, rank, settings, gang.facts, place);
  run.cpus = plan.cpus.cpus;
  run.memory_bytes = plan.memory_bytes;
  for (const v1::Slot* gpu : GpusAmong(place.visible_slots)) run.gpus.push_back(gpu->index());
  // What the environment names is reached by the same paths inside.
  run.mounts = {{place.socket, place.socket}};
  if (gang.paths.has_offers) {
    run.mounts.push_back({place.checkpoint_directory, place.checkpoint_directory});
  }
  if (!gang.facts.resume_path.empty()) {
    run.mounts.push_back({gang.facts.resume_path, gang.facts.resume_path, /*read_only=*/true});
  }
  plan.offer_roots = {place.checkpoint_directory};
  if (!settings.upload.empty()) {
    run.mounts.push_back({deps_.work.PathOf(gang.start.fence()), kContainerWork});
    run.workdir = absl::StrCat(kContainerWork, "/", settings.workdir);
  }
  MUSTER_ASSIGN_OR_RETURN(
      plan.container, deps_.containers.Plan(plan.key(), plan.folder, std::move(run), plan.command));
  return absl::OkStatus();
}

}  // namespace muster::worker
