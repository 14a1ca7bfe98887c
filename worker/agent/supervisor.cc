#include "worker/agent/supervisor.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "worker/agent/process_scan.h"
#include "worker/agent/resume_search.h"
#include "worker/link/launch.h"

namespace muster::worker {
namespace {

constexpr absl::Duration kLeftoverPatience = absl::Seconds(10);
constexpr int kLeftoverPollMs = 20;
// After the controller was away for too long: time to leave by SIGTERM.
constexpr absl::Duration kLostControllerGrace = absl::Seconds(10);

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
  launch.work_dir = folder;
  launch.allow_plugins = options.allow_commands;
  for (const v1::StartRanks::Resume& resume : start.resume()) {
    launch.resume.push_back({resume.path(), resume.step(), resume.manifest_sha256(), resume.best(),
                             resume.job_id(), resume.job_name()});
  }
  launch.spec_json = start.spec_json();
  return launch;
}

}  // namespace

Supervisor::Supervisor(const SupervisorDeps& deps, SupervisorOptions options)
    : deps_(deps),
      options_(std::move(options)),
      folders_(deps.fs, options_.ranks_root),
      finished_(deps.fs, deps.spool, folders_),
      listeners_(options_.sockets_root),
      offers_(deps.fs, options_.worker_name),
      store_({.send =
                  [this](v1::WorkerMessage message) { deps_.sink.SendMessage(std::move(message)); },
              .reply =
                  [this](const RankKey& key, const StoreReplyLine& reply) {
                    if (gangs_.OnReply(key, reply)) return;
                    const auto it = ranks_.find(key);
                    if (it != ranks_.end()) it->second->Reply(reply);
                  }}),
      gangs_(options_.advertise_address,
             {.request =
                  [this](const v1::Fence& fence, uint32_t rank, StoreLine line) {
                    store_.Request(fence, rank, /*running=*/false, std::move(line),
                                   deps_.loop.clock().SinceBoot());
                  },
              .fetch = [this](const RankKey& key, const v1::Fence& fence,
                              const CommandSettings& command) { Fetch(key, fence, command); },
              .find_resume = [this](const RankKey& key,
                                    const v1::StartRanks& start) { FindResume(key, start); },
              .done = [this](GangStart gang,
                             absl::Status status) { OnGangReady(std::move(gang), status); }}),
      background_(deps.loop.mailbox()),
      work_(deps.fs, options_.work_root, options_.upload_cache, deps.uploads, deps.loop.mailbox()),
      containers_(deps.loop, deps.fs, children_, options_.containers) {}

Supervisor::~Supervisor() = default;

void Supervisor::OpenCgroups() {
  if (options_.cgroup_name.empty()) return;
  absl::StatusOr<std::unique_ptr<RankCgroups>> cgroups = RankCgroups::Open(options_.cgroup_name);
  if (cgroups.ok()) cgroups_ = *std::move(cgroups);
  Log(LogLevel::kInfo, "cgroups",
      {{"used", cgroups_ != nullptr},
       {"memory", cgroups_ != nullptr && cgroups_->can_limit_memory()},
       {"reason", cgroups.status().message()}});
}

absl::StatusOr<std::unique_ptr<RankCgroup>> Supervisor::MakeCgroup(const RankPlan& plan) {
  if (cgroups_ == nullptr) return nullptr;
  return cgroups_->Make(cgroups_->can_limit_memory() ? plan.memory_bytes : 0);
}

absl::Status Supervisor::ClearLeftovers() {
  OpenCgroups();
  const absl::Duration deadline = deps_.loop.clock().SinceBoot() + kLeftoverPatience;
  while (true) {
    const std::vector<pid_t> leftovers = FindProcesses(/*group=*/0, options_.ranks_root);
    if (leftovers.empty()) break;
    if (deps_.loop.clock().SinceBoot() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat("process ", leftovers.front(),
                                                      " of an earlier run under ",
                                                      options_.ranks_root, " does not die"));
    }
    for (const pid_t pid : leftovers) {
      Log(LogLevel::kWarning, "leftover_killed", {{"pid", pid}});
      ::kill(pid, SIGKILL);
    }
    ::poll(nullptr, 0, kLeftoverPollMs);
  }
  containers_.ClearLeftovers(options_.ranks_root);
  MUSTER_RETURN_IF_ERROR(finished_.AdoptLeftovers());
  MUSTER_RETURN_IF_ERROR(work_.ClearLeftovers());
  WorkOnFolders();
  return absl::OkStatus();
}

const v1::Slot* Supervisor::FindSlot(uint32_t index) const {
  for (const v1::Slot& slot : options_.slots) {
    if (slot.index() == index) return &slot;
  }
  return nullptr;
}

std::set<uint32_t> Supervisor::BusySlots() const {
  std::set<uint32_t> busy;
  for (const auto& [key, rank] : ranks_) {
    busy.insert(rank->plan().slots.begin(), rank->plan().slots.end());
  }
  gangs_.ForEachRank([&](const v1::Fence&, const v1::StartRanks::Rank& rank) {
    busy.insert(rank.slots().begin(), rank.slots().end());
  });
  return busy;
}

bool Supervisor::IsBusy(uint32_t slot) const {
  const auto holds = [slot](const auto& slots) {
    return std::find(slots.begin(), slots.end(), slot) != slots.end();
  };
  bool busy = std::any_of(ranks_.begin(), ranks_.end(),
                          [&](const auto& rank) { return holds(rank.second->plan().slots); });
  gangs_.ForEachRank([&](const v1::Fence&, const v1::StartRanks::Rank& rank) {
    busy = busy || holds(rank.slots());
  });
  return busy;
}

bool Supervisor::empty() const { return ranks_.empty() && BusySlots().empty(); }

absl::Status Supervisor::Start(const v1::StartRanks& start, uint64_t session_term) {
  StartContext context;
  context.draining = draining_;
  context.allow_commands = options_.allow_commands;
  context.runtimes = containers_.runtimes();
  context.session_term = session_term;
  for (const v1::StartRanks::Rank& rank : start.ranks()) {
    for (const uint32_t slot : rank.slots()) {
      if (FindSlot(slot) != nullptr) context.slots.insert(slot);
      if (IsBusy(slot)) context.busy_slots.insert(slot);
    }
  }
  MUSTER_ASSIGN_OR_RETURN(SpecSettings settings, CheckStart(start, context, fences_, specs_));
  MUSTER_RETURN_IF_ERROR(CheckDevices(start, settings, options_.slots));
  fences_.RaiseTo(start.fence().job_id(), start.fence().attempt());
  if (settings.command.has_value()) {
    gangs_.Begin(start, std::move(settings));
  } else {
    for (const v1::StartRanks::Rank& rank : start.ranks()) {
      StartOne(start, rank, PrepareTrainer(start, rank, settings));
    }
  }
  deps_.sink.OnRanksChanged();
  return absl::OkStatus();
}

std::string Supervisor::GpusOf(const std::vector<uint32_t>& slots) const {
  std::string uuids;
  for (const uint32_t index : slots) {
    const v1::Slot* slot = FindSlot(index);
    if (slot == nullptr || slot->kind() != v1::GPU) continue;
    absl::StrAppend(&uuids, uuids.empty() ? "" : ",", slot->uuid());
  }
  return uuids;
}

absl::StatusOr<RankPlan> Supervisor::Prepare(const v1::StartRanks& start,
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
      !image.empty() && containers_.runtimes().For(image) == ContainerRuntime::kPodman;
  if (!by_podman) {
    MUSTER_ASSIGN_OR_RETURN(plan.cgroup, MakeCgroup(plan));
  }
  if (plan.cgroup != nullptr) plan.command.cgroup_fd = plan.cgroup->fd();
  MUSTER_ASSIGN_OR_RETURN(plan.folder, folders_.Make(MakeRankKey(plan.fence, plan.rank)));
  plan.controller_lost_timeout = settings.controller_lost_timeout;
  plan.command.log_directory = plan.folder;
  plan.cpus = ClaimCpus(settings.cpus);
  plan.command.cpus = plan.cpus.cpus;
  if (settings.cpus > plan.cpus.cpus.size()) {
    Log(LogLevel::kWarning, "cpus_shared",
        {{"job", plan.fence.job_id()}, {"rank", plan.rank}, {"wanted", settings.cpus}});
  }
  return plan;
}

absl::StatusOr<RankPlan> Supervisor::PrepareTrainer(const v1::StartRanks& start,
                                                    const v1::StartRanks::Rank& rank,
                                                    const SpecSettings& settings) {
  MUSTER_ASSIGN_OR_RETURN(RankPlan plan, Prepare(start, rank, settings));
  const std::string visible_gpus = GpusOf(plan.slots);
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

absl::StatusOr<RankPlan> Supervisor::PrepareCommand(GangStart& gang,
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
  if (const absl::Status made = offers_.Make(gang.start.checkpoint_root()); !made.ok()) {
    // A command that saves nothing does not need it.
    Log(LogLevel::kWarning, "no_checkpoint_folder", {{"error", made.ToString()}});
  }
  MUSTER_ASSIGN_OR_RETURN(CommandListener * listener, listeners_.ForSlot(plan.slots.front()));
  plan.socket = std::make_unique<CommandSocket>(deps_.loop, *listener);
  place.socket = plan.socket->path();
  plan.job_name = gang.start.job_name();
  plan.checkpoint_root = gang.start.checkpoint_root();
  place.visible_slots = VisibleSlots(gang.start, rank);
  place.visible_gpus = GpusOf(place.visible_slots);
  plan.command.link = false;
  MUSTER_RETURN_IF_ERROR(gang.settings.command->image.empty()
                             ? PrepareProgram(gang, rank, place, plan)
                             : PrepareContainer(gang, rank, place, plan));
  return plan;
}

absl::Status Supervisor::PrepareProgram(const GangStart& gang, const v1::StartRanks::Rank& rank,
                                        const CommandPlace& place, RankPlan& plan) {
  const CommandSettings& settings = *gang.settings.command;
  MUSTER_ASSIGN_OR_RETURN(plan.command.directory, WorkFolder(gang));
  plan.command.environment =
      CommandEnvironment(options_.base_environment, gang.start, rank, settings, gang.facts, place);
  plan.command.argv = settings.argv;
  const std::string path = FindVariable(plan.command.environment, "PATH").value_or("");
  absl::StatusOr<std::string> program = FindProgram(settings.argv[0], path, plan.command.directory);
  if (!program.ok()) return AsMissing(program.status(), PlaceOfProgram(settings));
  plan.command.program = *std::move(program);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Supervisor::WorkFolder(const GangStart& gang) {
  const CommandSettings& settings = *gang.settings.command;
  std::string folder = settings.upload.empty()
                           ? settings.workdir
                           : absl::StrCat(work_.PathOf(gang.start.fence()), "/", settings.workdir);
  MUSTER_ASSIGN_OR_RETURN(const bool is_there, deps_.fs.Exists(folder));
  if (is_there) return folder;
  const std::string what = absl::StrCat("command.workdir: ", settings.workdir, " is not there ");
  if (!settings.upload.empty()) {
    return AsMissing(absl::NotFoundError(absl::StrCat(what, "in the uploaded folder")),
                     v1::RankEvent::IN_UPLOAD);
  }
  return AsMissing(absl::NotFoundError(absl::StrCat(what, "on worker ", options_.worker_name)),
                   v1::RankEvent::ON_WORKER);
}

absl::Status Supervisor::PrepareContainer(const GangStart& gang, const v1::StartRanks::Rank& rank,
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
  for (const uint32_t index : place.visible_slots) {
    const v1::Slot* slot = FindSlot(index);
    if (slot != nullptr && slot->kind() == v1::GPU) run.gpus.push_back(index);
  }
  // What the environment names is reached by the same paths inside.
  run.mounts = {{place.socket, place.socket}};
  const std::pair<const std::string*, bool> folders[] = {{&place.checkpoint_directory, false},
                                                         {&gang.facts.resume_path, true}};
  for (const auto& [folder, read_only] : folders) {
    MUSTER_ASSIGN_OR_RETURN(const bool is_there, deps_.fs.Exists(*folder));
    if (is_there) run.mounts.push_back({*folder, *folder, read_only});
  }
  if (!settings.upload.empty()) {
    MUSTER_RETURN_IF_ERROR(WorkFolder(gang).status());
    run.mounts.push_back({work_.PathOf(gang.start.fence()), kContainerWork});
    run.workdir = absl::StrCat(kContainerWork, "/", settings.workdir);
  }
  MUSTER_ASSIGN_OR_RETURN(plan.container,
                          containers_.Plan(MakeRankKey(plan.fence, plan.rank), plan.folder,
                                           std::move(run), plan.command));
  return absl::OkStatus();
}

void Supervisor::Fetch(const RankKey& key, const v1::Fence& fence, const CommandSettings& command) {
  const auto bring_image = [this, key, image = command.image](const absl::Status& status) {
    if (!status.ok() || image.empty()) return gangs_.OnFetched(key, status);
    containers_.Prepare(key, image,
                        [this, key](const absl::Status& done) { gangs_.OnFetched(key, done); });
  };
  command.upload.empty() ? bring_image(absl::OkStatus())
                         : work_.Prepare(fence, command.upload, bring_image);
}

std::vector<uint32_t> Supervisor::VisibleSlots(const v1::StartRanks& start,
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

void Supervisor::FindResume(const RankKey& key, const v1::StartRanks& start) {
  background_.Enqueue([this, key, start]() -> BackgroundThread::Completion {
    const auto found = std::make_shared<ResumeFound>(
        SearchResume(deps_.fs, start, [this] { return !background_.stopping(); }));
    return [this, key, found] {
      for (v1::CheckpointEvent& event : found->events) OnCheckpointEvent(std::move(event));
      gangs_.OnResume(key, found->status, found->path, found->step);
    };
  });
}

void Supervisor::OnGangReady(GangStart gang, const absl::Status& status) {
  for (const v1::StartRanks::Rank& rank : gang.start.ranks()) {
    StartOne(gang.start, rank,
             status.ok() ? PrepareCommand(gang, rank) : absl::StatusOr<RankPlan>(status));
  }
  ReleaseWork(gang.start.fence());
  deps_.sink.OnRanksChanged();
}

void Supervisor::StartOne(const v1::StartRanks& start, const v1::StartRanks::Rank& rank,
                          absl::StatusOr<RankPlan> plan) {
  const RankKey key = MakeRankKey(start.fence(), rank.rank());
  absl::Status status = plan.status();
  if (plan.ok()) {
    const bool by_itself = plan->is_command && !plan->container.has_value();
    auto started = Rank::Start({deps_.loop, deps_.fs, deps_.spool, deps_.registry, children_,
                                containers_, deps_.energy, options_.kill_patience, *this},
                               *std::move(plan));
    status = started.status();
    // It is there but cannot be run, as a script whose interpreter is missing.
    if (by_itself && (absl::IsNotFound(status) || absl::IsPermissionDenied(status))) {
      status = AsMissing(status, v1::RankEvent::ON_WORKER);
    }
    if (started.ok()) ranks_[key] = *std::move(started);
  }
  if (status.ok()) return;
  Log(LogLevel::kError, "rank_not_started",
      {{"job", key.job_id}, {"rank", key.rank}, {"error", status.ToString()}});
  ExitFacts facts;
  facts.start_error = status;
  ReportNeverRan(start.fence(), rank.rank(), facts);
  finished_.Add(key);
}

void Supervisor::ReportNeverRan(const v1::Fence& fence, uint32_t rank, const ExitFacts& facts) {
  v1::RankEvent event;
  *event.mutable_fence() = fence;
  event.set_rank(rank);
  event.set_kind(v1::RankEvent::EXITED);
  JudgeExit(facts, event);
  OnRankEvent(std::move(event));
}

void Supervisor::StopWaiting(const StopRequest& request,
                             const std::function<bool(const v1::Fence&)>& wanted) {
  const std::vector<GangStart> gangs = gangs_.TakeIf(wanted);
  for (const GangStart& gang : gangs) {
    ExitFacts facts;
    facts.is_command = true;
    facts.stop = request;
    containers_.Abandon(MakeRankKey(gang.start.fence(), gang.start.ranks(0).rank()));
    for (const v1::StartRanks::Rank& rank : gang.start.ranks()) {
      store_.Forget(MakeRankKey(gang.start.fence(), rank.rank()));
      ReportNeverRan(gang.start.fence(), rank.rank(), facts);
    }
    ReleaseWork(gang.start.fence());
  }
  if (!gangs.empty()) deps_.sink.OnRanksChanged();
}

void Supervisor::Stop(const v1::StopRanks& stop) {
  const v1::Fence& fence = stop.fence();
  fences_.RaiseTo(fence.job_id(), fence.attempt() + 1);
  const StopRequest request{stop.mode(), absl::Milliseconds(std::max<int64_t>(0, stop.grace_ms())),
                            stop.reason()};
  for (const auto& [key, rank] : ranks_) {
    if (key.job_id == fence.job_id() && key.attempt <= fence.attempt()) rank->Stop(request);
  }
  StopWaiting(request, [&](const v1::Fence& waiting) {
    return waiting.job_id() == fence.job_id() && waiting.attempt() <= fence.attempt();
  });
}

void Supervisor::KillStale(const v1::Welcome::StaleRank& stale) {
  const StopRequest request{v1::StopRanks::KILL, absl::ZeroDuration(),
                            "the controller does not know this attempt any more"};
  for (const auto& [key, rank] : ranks_) {
    if (key.job_id == stale.job_id() && key.attempt == stale.attempt() &&
        key.rank == stale.rank()) {
      rank->Stop(request);
    }
  }
  StopWaiting(request, [&](const v1::Fence& waiting) {
    return waiting.job_id() == stale.job_id() && waiting.attempt() == stale.attempt();
  });
}

void Supervisor::StopAll(const StopRequest& request) {
  for (const auto& [key, rank] : ranks_) rank->Stop(request);
  StopWaiting(request, [](const v1::Fence&) { return true; });
}

void Supervisor::OnCheckpointAck(const v1::CheckpointAck& ack) {
  for (const auto& [key, rank] : ranks_) {
    const v1::Fence& fence = ack.fence();
    const bool same = key.job_id == fence.job_id() && key.attempt == fence.attempt() &&
                      key.generation == fence.generation();
    // Rank 0 is the one that commits.
    if (same && key.rank == 0) rank->OnCheckpointAck(ack.step(), ack.error());
  }
}

void Supervisor::OnLeaseRenewed() {
  for (const auto& [key, rank] : ranks_) rank->TryPublish();
}

void Supervisor::Tick(absl::Duration controller_away) {
  for (const auto& [key, rank] : ranks_) rank->CheckMemory();
  for (const auto& [key, rank] : ranks_) {
    if (controller_away < rank->plan().controller_lost_timeout) continue;
    rank->Stop(
        {v1::StopRanks::TERM, kLostControllerGrace,
         absl::StrCat("the controller has been away for ", absl::FormatDuration(controller_away))});
  }
  children_.ReapOrphans();
  store_.Sweep(deps_.loop.clock().SinceBoot());
  WorkOnFolders();
}

void Supervisor::ReleaseWork(const v1::Fence& fence) {
  const RankKey first = MakeRankKey(fence, 0);
  for (const auto& [key, rank] : ranks_) {
    const bool same = key.job_id == first.job_id && key.attempt == first.attempt &&
                      key.generation == first.generation;
    if (same) return;
  }
  work_.Release(fence);
}

void Supervisor::WorkOnFolders() {
  // A little at a time: other ranks' lines must not wait behind a large log.
  if (finished_.Work()) deps_.loop.After(absl::ZeroDuration(), [this] { WorkOnFolders(); });
}

std::vector<v1::RankStatus> Supervisor::Statuses() const {
  std::vector<v1::RankStatus> statuses;
  for (const auto& [key, rank] : ranks_) rank->FillStatus(statuses.emplace_back());
  gangs_.ForEachRank([&](const v1::Fence& fence, const v1::StartRanks::Rank& rank) {
    v1::RankStatus& status = statuses.emplace_back();
    *status.mutable_fence() = fence;
    status.set_rank(rank.rank());
    status.set_phase("rendezvous");
  });
  return statuses;
}

void Supervisor::OnRankEvent(v1::RankEvent event) {
  v1::WorkerMessage message;
  *message.mutable_rank_event() = std::move(event);
  deps_.sink.SendEvent(std::move(message));
}

void Supervisor::OnCheckpointEvent(v1::CheckpointEvent event) {
  v1::WorkerMessage message;
  *message.mutable_checkpoint_event() = std::move(event);
  deps_.sink.SendEvent(std::move(message));
}

void Supervisor::OnUnkillable(const Rank& rank, const std::string& what) {
  Log(LogLevel::kError, "rank_unkillable", {{"worker", options_.worker_name}, {"error", what}});
  unkillable_[rank.key()] = what;
  deps_.sink.Unfit(what);
}

void Supervisor::OnSessionUp(uint64_t term) {
  store_.SessionUp(term);
  for (const auto& [key, what] : unkillable_) deps_.sink.Unfit(what);
}

void Supervisor::OnStoreLine(Rank& rank, StoreLine line) {
  store_.Request(rank.plan().fence, rank.plan().rank, rank.running(), std::move(line),
                 deps_.loop.clock().SinceBoot());
}

void Supervisor::OnGone(const RankKey& key, bool silent) {
  store_.Forget(key);
  unkillable_.erase(key);
  finished_.Add(key, silent);
  WorkOnFolders();
  // The rank is still in this call.
  deps_.loop.After(absl::ZeroDuration(), [this, key] {
    const auto rank = ranks_.extract(key);
    if (!rank.empty()) ReleaseWork(rank.mapped()->plan().fence);
    deps_.sink.OnRanksChanged();
  });
}

}  // namespace muster::worker
