#include "worker/agent/gang/supervisor.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/protocol/phase_beats.h"
#include "worker/agent/checkpoint/resume_search.h"
#include "worker/agent/command/offer_folders.h"

namespace muster::worker {
namespace {

constexpr absl::Duration kLeftoverPatience = absl::Seconds(10);
constexpr int kRankLeftoverPollMs = 20;
// After the controller was away for too long: time to leave by SIGTERM.
constexpr absl::Duration kLostControllerGrace = absl::Seconds(10);
// For empty folders to go, before a rank's end is told.
constexpr absl::Duration kGiveBackPatience = absl::Seconds(2);

}  // namespace

Supervisor::Supervisor(const SupervisorDeps& deps, SupervisorOptions options)
    : deps_(deps),
      options_(std::move(options)),
      trash_(deps.fs, options_.trash_root),
      folders_(deps.fs, trash_, options_.ranks_root),
      finished_(deps.spool, folders_),
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
              .find_paths = [this](const RankKey& key,
                                   const GangStart& gang) { FindPaths(key, gang); },
              .done = [this](GangStart gang,
                             absl::Status status) { OnGangReady(std::move(gang), status); }}),
      side_(deps.loop.mailbox()),
      bulk_(deps.loop.mailbox()),
      work_(deps.fs, trash_, options_.work_root, options_.upload_cache, deps.fetch_upload,
            deps.loop.mailbox()),
      containers_(deps.loop, deps.fs, children_, side_, options_.containers),
      planner_({deps.loop, deps.fs, folders_, work_, containers_}, options_),
      starts_(deps.loop, side_, options_.path_patience,
              [this](RankStarts::Starting starting, absl::StatusOr<StartedProcess> process) {
                OnStarted(std::move(starting), std::move(process));
              }) {}

Supervisor::~Supervisor() = default;

absl::Status Supervisor::ClearLeftovers() {
  planner_.OpenCgroups();
  const absl::Duration patience = std::min(kLeftoverPatience, options_.kill_patience);
  const absl::Duration deadline = deps_.loop.clock().SinceBoot() + patience;
  while (true) {
    leftovers_ = FindProcesses(/*group=*/0, options_.ranks_root);
    for (const ProcessId& process : planner_.LeftInCgroups()) {
      const bool is_new =
          std::find(leftovers_.begin(), leftovers_.end(), process) == leftovers_.end();
      if (is_new) leftovers_.push_back(process);
    }
    if (leftovers_.empty()) break;
    if (deps_.loop.clock().SinceBoot() > deadline) {
      Log(LogLevel::kError, "leftover_unkillable",
          {{"worker", options_.worker_name}, {"error", LeftoverTrouble()}});
      break;
    }
    for (const ProcessId& process : leftovers_) {
      Log(LogLevel::kWarning, "leftover_killed", {{"pid", process.pid}});
      SignalProcess(process, SIGKILL);
    }
    ::poll(nullptr, 0, kRankLeftoverPollMs);
  }
  containers_.ClearLeftovers(options_.ranks_root);
  trash_.TakeLeftovers();
  MUSTER_RETURN_IF_ERROR(finished_.AdoptLeftovers());
  work_.ClearLeftovers();
  WorkOnFolders();
  return absl::OkStatus();
}

std::string Supervisor::LeftoverTrouble() const {
  return absl::StrCat("process ", leftovers_.front().pid, " of an earlier run under ",
                      options_.ranks_root,
                      " does not die of SIGKILL (does a driver or a file system hang?); nobody "
                      "knows which slots it holds, so nothing starts here until it is gone");
}

void Supervisor::WatchLeftovers() {
  if (leftovers_.empty()) return;
  if (!std::exchange(leftovers_said_, true)) deps_.sink.Unfit(LeftoverTrouble());
  std::erase_if(leftovers_, [](const ProcessId& process) { return !IsLiving(process); });
  SayFitAgain();
}

void Supervisor::SayFitAgain() {
  if (leftovers_.empty() && unkillable_.empty()) deps_.sink.FitAgain();
}

void Supervisor::ForEachBusySlot(const std::function<void(uint32_t)>& visit) const {
  const auto visit_all = [&visit](const auto& slots) {
    std::for_each(slots.begin(), slots.end(), visit);
  };
  for (const auto& [key, rank] : ranks_) visit_all(rank->plan().slots);
  starts_.ForEach([&](const RankStarts::Starting& starting) { visit_all(starting.plan.slots); });
  gangs_.ForEachRank(
      [&](const v1::Fence&, const v1::StartRanks::Rank& rank) { visit_all(rank.slots()); });
}

std::set<uint32_t> Supervisor::BusySlots() const {
  std::set<uint32_t> busy;
  ForEachBusySlot([&busy](uint32_t slot) { busy.insert(slot); });
  return busy;
}

bool Supervisor::IsBusy(uint32_t slot) const {
  bool busy = false;
  ForEachBusySlot([&](uint32_t held) { busy = busy || held == slot; });
  return busy;
}

bool Supervisor::empty() const { return ranks_.empty() && BusySlots().empty(); }

bool Supervisor::only_unkillable_left() const {
  bool only = std::all_of(ranks_.begin(), ranks_.end(),
                          [this](const auto& rank) { return unkillable_.contains(rank.first); });
  starts_.ForEach([&](const RankStarts::Starting& starting) {
    only = only && unkillable_.contains(starting.plan.key());
  });
  gangs_.ForEachRank([&](const v1::Fence&, const v1::StartRanks::Rank&) { only = false; });
  return only;
}

absl::Status Supervisor::Start(const v1::StartRanks& start, uint64_t session_term) {
  if (!leftovers_.empty()) return absl::UnavailableError(LeftoverTrouble());
  StartContext context;
  context.draining = draining_;
  context.allow_commands = options_.allow_commands;
  context.runtimes = containers_.runtimes();
  context.session_term = session_term;
  for (const v1::StartRanks::Rank& rank : start.ranks()) {
    for (const uint32_t slot : rank.slots()) {
      if (FindSlot(options_.slots, slot) != nullptr) context.slots.insert(slot);
      if (IsBusy(slot)) context.busy_slots.insert(slot);
    }
  }
  MUSTER_ASSIGN_OR_RETURN(SpecSettings settings, CheckStart(start, context, fences_, specs_));
  MUSTER_RETURN_IF_ERROR(CheckDevices(start, settings, options_.slots));
  fences_.RaiseTo(start.fence().job_id(), start.fence().attempt());
  if (HasRemainsOf(start)) DropUndelivered("the controller went back to an earlier state");
  if (settings.command.has_value()) {
    gangs_.Begin(start, std::move(settings));
  } else {
    for (const v1::StartRanks::Rank& rank : start.ranks()) {
      StartOne(start, rank, planner_.PlanTrainer(start, rank, settings));
    }
  }
  deps_.sink.OnRanksChanged();
  return absl::OkStatus();
}

bool Supervisor::HasRemainsOf(const v1::StartRanks& start) const {
  return std::any_of(start.ranks().begin(), start.ranks().end(),
                     [&](const v1::StartRanks::Rank& rank) {
                       const RankKey key = MakeRankKey(start.fence(), rank.rank());
                       return finished_.Has(key) || deps_.spool.HasMarks(key);
                     });
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

void Supervisor::FindResume(const RankKey& key, const v1::StartRanks& start) {
  const auto watch = std::make_shared<PathWatch>();
  const auto blocks = std::make_shared<std::atomic<uint64_t>>(0);
  const std::pair<uint64_t, uint32_t> attempt = {key.job_id, key.attempt};
  blocks_read_[attempt] = blocks;
  EnqueueWatched(
      deps_.loop, bulk_,
      [this, &fs = deps_.fs, key, start, watch, blocks, attempt,
       stopping = bulk_.stopping()]() -> SideThreads::Completion {
        watch->Touch(start.checkpoint_root());
        const auto found = std::make_shared<ResumeFound>(SearchResume(fs, start, [&] {
          watch->GetOn();
          ++*blocks;
          return !*stopping;
        }));
        return [this, key, start, found, attempt] {
          blocks_read_.erase(attempt);
          RemoveLeftHalfWritten(start);
          if (!gangs_.Waits(key)) return;
          for (v1::CheckpointEvent& event : found->events) OnCheckpointEvent(std::move(event));
          gangs_.OnResume(key, found->status, found->path, found->step);
        };
      },
      watch, options_.path_patience,
      [this, key, attempt](const absl::Status& stall, bool) {
        blocks_read_.erase(attempt);
        gangs_.OnResume(key, stall, "", 0);
      });
}

void Supervisor::RemoveLeftHalfWritten(const v1::StartRanks& start) {
  const auto watch = std::make_shared<PathWatch>();
  bulk_.Enqueue(
      [&fs = deps_.fs, start, watch]() -> SideThreads::Completion {
        watch->Touch(start.checkpoint_root());
        worker::RemoveLeftHalfWritten(fs, start);
        return nullptr;
      },
      watch);
}

void Supervisor::FindPaths(const RankKey& key, const GangStart& gang) {
  CommandPathsRequest request;
  request.start = gang.start;
  request.settings = *gang.settings.command;
  request.facts = gang.facts;
  request.upload = work_.PathOf(gang.start.fence());
  const auto own_path = request.settings.env.find("PATH");
  request.path = own_path != request.settings.env.end()
                     ? own_path->second
                     : FindVariable(options_.base_environment, "PATH").value_or("");
  request.worker = options_.worker_name;
  const auto watch = std::make_shared<PathWatch>();
  EnqueueWatched(
      deps_.loop, side_,
      [this, &fs = deps_.fs, key, request, watch]() -> SideThreads::Completion {
        const auto paths =
            std::make_shared<absl::StatusOr<CommandPaths>>(FindCommandPaths(fs, request, *watch));
        return [this, key, paths] { gangs_.OnPaths(key, std::move(*paths)); };
      },
      watch, options_.path_patience,
      [this, key](const absl::Status& stall, bool) { gangs_.OnPaths(key, stall); });
}

void Supervisor::GiveBackOffers(const std::string& job_root, std::function<void()> done) {
  // Whichever comes first.
  const auto once = std::make_shared<std::function<void()>>(std::move(done));
  const auto given_up = std::make_shared<std::atomic<bool>>(false);
  const auto finish = [once, given_up] {
    // The caller stops waiting, and another attempt may start: remove nothing from here on.
    *given_up = true;
    if (const std::function<void()> call = std::exchange(*once, nullptr)) call();
  };
  side_.Enqueue([job_root, given_up, finish]() -> SideThreads::Completion {
    OfferFolders::GiveBack(job_root, [&] { return !*given_up; });
    return finish;
  });
  deps_.loop.After(kGiveBackPatience, finish);
}

bool Supervisor::HasContainers() {
  bool some = std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) {
    return rank.second->plan().container.has_value();
  });
  starts_.ForEach([&](const RankStarts::Starting& starting) {
    some = some || starting.plan.container.has_value();
  });
  return some;
}

bool Supervisor::IsOfAnother(const RankKey& key, pid_t orphan) {
  for (const auto& [other, rank] : ranks_) {
    if (other != key && rank->Owns(orphan)) return true;
  }
  bool starts = false;
  starts_.ForEach([&](const RankStarts::Starting& starting) {
    const RankPlan& plan = starting.plan;
    starts = starts || (plan.cgroup != nullptr && IsInCgroup(orphan, plan.cgroup->name())) ||
             BelongsTo(orphan, 0, plan.folder);
  });
  return starts;
}

void Supervisor::OnGangReady(GangStart gang, const absl::Status& status) {
  for (const v1::StartRanks::Rank& rank : gang.start.ranks()) {
    StartOne(gang.start, rank,
             status.ok() ? planner_.PlanCommand(gang, rank) : absl::StatusOr<RankPlan>(status));
  }
  ReleaseWork(gang.start.fence());
  deps_.sink.OnRanksChanged();
}

void Supervisor::StartOne(const v1::StartRanks& start, const v1::StartRanks::Rank& rank,
                          absl::StatusOr<RankPlan> plan) {
  if (plan.ok()) {
    starts_.Begin(*std::move(plan));
  } else {
    OnNotStarted(start.fence(), rank.rank(), plan.status());
  }
}

void Supervisor::OnStarted(RankStarts::Starting starting, absl::StatusOr<StartedProcess> process) {
  RankPlan& plan = starting.plan;
  const RankKey key = plan.key();
  ForgetUnkillable(key);
  if (process.ok()) {
    auto rank = std::make_unique<Rank>(
        RankDeps{deps_.loop, deps_.fs, deps_.spool, deps_.families, children_, containers_,
                 deps_.energy, options_.kill_patience, options_.path_patience, *this},
        std::move(plan), *std::move(process));
    Rank& started = *(ranks_[key] = std::move(rank));
    if (starting.stop.has_value()) started.Stop(*starting.stop);
  } else {
    const bool by_itself = plan.is_command && !plan.container.has_value();
    const absl::Status& why = process.status();
    // It is there but cannot be run, as a script whose interpreter is missing.
    const bool is_missing = by_itself && (absl::IsNotFound(why) || absl::IsPermissionDenied(why));
    OnNotStarted(plan.fence, plan.rank,
                 is_missing ? AsMissing(why, v1::RankEvent::ON_WORKER) : why);
    ReleaseWork(plan.fence);
  }
  deps_.sink.OnRanksChanged();
}

void Supervisor::OnNotStarted(const v1::Fence& fence, uint32_t rank, const absl::Status& why) {
  Log(LogLevel::kError, "rank_not_started",
      {{"job", fence.job_id()}, {"rank", rank}, {"error", why.ToString()}});
  ExitFacts facts;
  facts.start_error = why;
  ReportNeverRan(fence, rank, facts);
  finished_.Add(MakeRankKey(fence, rank));
}

void Supervisor::ReportNeverRan(const v1::Fence& fence, uint32_t rank, const ExitFacts& facts) {
  v1::RankEvent event;
  *event.mutable_fence() = fence;
  event.set_rank(rank);
  event.set_kind(v1::RankEvent::EXITED);
  ClassifyExit(facts, event);
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

void Supervisor::StopRanks(const StopRequest& request,
                           const std::function<bool(const RankKey&)>& wanted) {
  for (const auto& [key, rank] : ranks_) {
    if (wanted(key)) rank->Stop(request);
  }
  starts_.Stop(request, deps_.loop.clock().SinceBoot(), wanted);
}

void Supervisor::Stop(const v1::StopRanks& stop) {
  const v1::Fence& fence = stop.fence();
  fences_.RaiseTo(fence.job_id(), fence.attempt() + 1);
  const StopRequest request{stop.mode(), absl::Milliseconds(std::max<int64_t>(0, stop.grace_ms())),
                            stop.reason()};
  StopRanks(request, [&](const RankKey& key) {
    return key.job_id == fence.job_id() && key.attempt <= fence.attempt();
  });
  StopWaiting(request, [&](const v1::Fence& waiting) {
    return waiting.job_id() == fence.job_id() && waiting.attempt() <= fence.attempt();
  });
}

void Supervisor::KillStale(const v1::Welcome::StaleRank& stale) {
  const StopRequest request{v1::StopRanks::KILL, absl::ZeroDuration(),
                            "the controller does not know this attempt any more"};
  StopRanks(request, [&](const RankKey& key) {
    return key.job_id == stale.job_id() && key.attempt == stale.attempt() &&
           key.rank == stale.rank();
  });
  StopWaiting(request, [&](const v1::Fence& waiting) {
    return waiting.job_id() == stale.job_id() && waiting.attempt() == stale.attempt();
  });
}

absl::StatusOr<RankExecContext> Supervisor::ExecContextOf(const v1::Fence& fence, uint32_t rank,
                                                          bool terminal) {
  const auto found = ranks_.find(MakeRankKey(fence, rank));
  if (found == ranks_.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", rank, " of job ", fence.job_id(), " is not on this worker any more"));
  }
  return found->second->ExecContext(terminal, planner_.MakeExecCgroup());
}

void Supervisor::StopAll(const StopRequest& request) {
  StopRanks(request, [](const RankKey&) { return true; });
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
  for (const auto& [key, rank] : ranks_) rank->Check();
  for (const auto& [key, rank] : ranks_) {
    if (controller_away < rank->plan().controller_lost_timeout) continue;
    rank->Stop(
        {v1::StopRanks::TERM, kLostControllerGrace,
         absl::StrCat("the controller has been away for ", absl::FormatDuration(controller_away))});
  }
  SayWhoDoesNotStart();
  WatchLeftovers();
  children_.ReapOrphans();
  store_.Sweep(deps_.loop.clock().SinceBoot());
  WorkOnFolders();
}

void Supervisor::SayWhoDoesNotStart() {
  const absl::Duration now = deps_.loop.clock().SinceBoot();
  starts_.ForEach([&](const RankStarts::Starting& starting) {
    const RankKey key = starting.plan.key();
    absl::Duration ended_at = starting.gave_up_at;
    if (starting.stop.has_value()) ended_at = std::min(ended_at, starting.stopped_at);
    if (now - ended_at < options_.kill_patience) return;
    if (unkillable_.contains(key)) return;
    v1::RankEvent event;
    *event.mutable_fence() = starting.plan.fence;
    event.set_rank(key.rank);
    event.set_failure_class(v1::START_FAILED);
    event.set_message(absl::StrCat("job ", key.job_id, ", rank ", key.rank, ": the start of ",
                                   starting.plan.command.program,
                                   " does not come to an end (does its file system hang?); it "
                                   "holds its slots until it does"));
    OnUnkillable(std::move(event));
  });
}

void Supervisor::ReleaseWork(const v1::Fence& fence) {
  const RankKey first = MakeRankKey(fence, 0);
  const auto is_of_attempt = [&first](const RankKey& key) {
    return key.job_id == first.job_id && key.attempt == first.attempt &&
           key.generation == first.generation;
  };
  bool in_use = std::any_of(ranks_.begin(), ranks_.end(),
                            [&](const auto& rank) { return is_of_attempt(rank.first); });
  starts_.ForEach([&](const RankStarts::Starting& starting) {
    in_use = in_use || is_of_attempt(starting.plan.key());
  });
  if (!in_use) work_.Release(fence);
}

void Supervisor::DropUndelivered(absl::string_view reason) {
  if (deps_.spool.HasUnacknowledged() || finished_.size() > 0) {
    Log(LogLevel::kWarning, "undelivered_dropped",
        {{"reason", reason},
         {"spool_bytes", deps_.spool.pending_bytes()},
         {"rank_folders", finished_.size()}});
  }
  deps_.spool.Abandon();
  finished_.Abandon();
  WorkOnFolders();
}

void Supervisor::WorkOnFolders() {
  // A little at a time: other ranks' lines must not wait behind a large log.
  if (finished_.Work()) deps_.loop.After(absl::ZeroDuration(), [this] { WorkOnFolders(); });
}

std::vector<v1::RankStatus> Supervisor::Statuses() const {
  std::vector<v1::RankStatus> statuses;
  for (const auto& [key, rank] : ranks_) rank->FillStatus(statuses.emplace_back());
  const auto add = [&](const v1::Fence& fence, uint32_t rank, const char* phase) {
    v1::RankStatus& status = statuses.emplace_back();
    *status.mutable_fence() = fence;
    status.set_rank(rank);
    status.set_phase(phase);
  };
  starts_.ForEach([&](const RankStarts::Starting& starting) {
    add(starting.plan.fence, starting.plan.rank, "start");
  });
  gangs_.ForEachRank([&](const v1::Fence& fence, const v1::StartRanks::Rank& rank) {
    add(fence, rank.rank(), "rendezvous");
    std::optional<uint64_t> beats = work_.PiecesFetched(fence);
    const auto reads = blocks_read_.find({fence.job_id(), fence.attempt()});
    if (reads != blocks_read_.end()) beats = reads->second->load();
    if (!beats.has_value()) return;
    (*statuses.back().mutable_latest())[kPhaseBeats] = static_cast<double>(*beats);
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

void Supervisor::OnUnkillable(v1::RankEvent event) {
  Log(LogLevel::kError, "rank_unkillable",
      {{"worker", options_.worker_name}, {"error", event.message()}});
  unkillable_.insert(MakeRankKey(event.fence(), event.rank()));
  const std::string what = event.message();
  event.set_kind(v1::RankEvent::UNKILLABLE);
  OnRankEvent(std::move(event));
  // Goes with it, so that its job does not come back here.
  deps_.sink.Unfit(what);
  // An agent that stops waits for it no longer.
  deps_.sink.OnRanksChanged();
}

void Supervisor::ForgetUnkillable(const RankKey& key) {
  if (unkillable_.erase(key) > 0) SayFitAgain();
}

void Supervisor::OnStoreLine(Rank& rank, StoreLine line) {
  store_.Request(rank.plan().fence, rank.plan().rank, rank.running(), std::move(line),
                 deps_.loop.clock().SinceBoot());
}

void Supervisor::OnGone(const RankKey& key, bool silent) {
  store_.Forget(key);
  ForgetUnkillable(key);
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
