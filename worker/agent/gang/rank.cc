#include "worker/agent/gang/rank.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/base/version.h"
#include "common/metrics/metric_names.h"
#include "common/protocol/phase_beats.h"
#include "worker/agent/process/process_scan.h"

namespace muster::worker {
namespace {

// How long a log line may lie in its file before it is on its way.
constexpr absl::Duration kLogInterval = absl::Milliseconds(200);
// Between two looks at what a dead rank left behind.
constexpr absl::Duration kClearInterval = absl::Milliseconds(20);
// The same once it is said to be unkillable.
constexpr absl::Duration kSlowClearInterval = absl::Seconds(1);
// Distinct values that one rank may report; further names are not shown (the spool still has them).
constexpr size_t kMaxLatestValues = 64;
// Of what people run beside a rank: the most there is.
constexpr int kExecOomScore = 1000;

v1::CheckpointEvent::Kind EventKind(CheckpointLine::Kind kind) {
  switch (kind) {
    case CheckpointLine::Kind::kBegin:
      return v1::CheckpointEvent::BEGIN;
    case CheckpointLine::Kind::kCommit:
      return v1::CheckpointEvent::COMMIT;
    case CheckpointLine::Kind::kFailed:
      return v1::CheckpointEvent::FAILED;
    case CheckpointLine::Kind::kCorrupt:
      return v1::CheckpointEvent::CORRUPT;
    case CheckpointLine::Kind::kUnread:
      return v1::CheckpointEvent::UNREAD;
    case CheckpointLine::Kind::kReady:
    case CheckpointLine::Kind::kOffer:
      break;
  }
  return v1::CheckpointEvent::KIND_UNSPECIFIED;
}

const char* Outcome(const v1::RankEvent& event) {
  return event.succeeded() ? "succeeded" : event.stopped() ? "stopped" : "failed";
}

}  // namespace

Rank::Rank(const RankDeps& deps, RankPlan plan, StartedProcess process)
    : deps_(deps),
      plan_(std::move(plan)),
      process_(std::make_unique<RankProcess>(std::move(process), deps.children)),
      joules_at_start_(deps_.energy.Joules(plan_.slots)),
      logs_(deps.spool, plan_.key(), plan_.folder),
      metrics_(deps.spool.MetricMark(plan_.key())) {
  progress_.phase = plan_.is_command ? "run" : "start";
  if (plan_.socket != nullptr) {
    plan_.socket->Serve([this](CommandSocket::ConnectionId from, RankLine line) {
      OnCommandLine(from, std::move(line));
    });
  }
  if (plan_.is_command && plan_.rank == 0) {
    checkpoints_ = std::make_unique<CommandCheckpoints>(
        deps_.fs, deps_.host.Side(),
        CommandCheckpoints::Options{plan_.fence, plan_.job_name, plan_.checkpoint_root, plan_.root,
                                    plan_.offer_roots, plan_.ranks_root, deps_.path_patience,
                                    plan_.command.file_mask},
        CommandCheckpoints::Callbacks{.may_publish =
                                          [this] {
                                            const bool killed = stop_.has_value() &&
                                                                stop_->mode == v1::StopRanks::KILL;
                                            return !killed && deps_.host.LeaseAllowsPublish();
                                          },
                                      .report =
                                          [this](v1::CheckpointEvent event) {
                                            deps_.host.OnCheckpointEvent(std::move(event));
                                          },
                                      .answer =
                                          [this](uint64_t connection, const CommittedLine& line) {
                                            if (plan_.socket != nullptr)
                                              plan_.socket->PayOwed(connection, line);
                                          },
                                      .on_idle = [this] { FinishWhenSaved(); }});
  }
  if (!plan_.is_command) {
    link_.emplace(
        deps.loop, process_->TakeLink(),
        RankSocket::Handlers{.on_line = [this](RankLine line) { OnLine(std::move(line)); },
                             .on_broken = [this](absl::Status status) { OnBrokenLink(status); }});
  }
  if (plan_.container.has_value()) {
    container_ = std::make_unique<RankContainer>(
        RankContainer::Deps{deps_.loop, deps_.containers}, *plan_.container, plan_.folder,
        process_->TakeLink(),
        RankContainer::Callbacks{.on_running = [this] { ReportRunning(); },
                                 .on_stuck = [this] { KillAll(); }});
  }
  deps_.loop.Watch(process_->exit_fd(), POLLIN, [this](short) { ClearRemains(); });
  log_timer_ = deps_.loop.After(kLogInterval, [this] { PumpLogs(); });
  deps_.families.Add(metric::kWorkerRanksStartedTotal);
  // A command need not say anything: it runs when it exists.
  const bool tells = container_ != nullptr && container_->by_podman();
  if (plan_.is_command && !tells) {
    ReportRunning();
  } else {
    deps_.host.OnRankEvent(MakeEvent(v1::RankEvent::STARTED));
  }
}

Rank::~Rank() {
  *alive_ = false;
  deps_.loop.Cancel(log_timer_);
  deps_.loop.Cancel(stop_timer_);
  deps_.loop.Cancel(clear_timer_);
  deps_.loop.Cancel(kill_timer_);
  if (!ended_) deps_.loop.Unwatch(process_->exit_fd());
}

v1::RankEvent Rank::MakeEvent(v1::RankEvent::Kind kind) const {
  v1::RankEvent event;
  *event.mutable_fence() = plan_.fence;
  event.set_rank(plan_.rank);
  event.set_kind(kind);
  event.set_pid(static_cast<uint32_t>(process_->pid()));
  event.set_last_step(step_);
  return event;
}

void Rank::FillStatus(v1::RankStatus& status) const {
  *status.mutable_fence() = plan_.fence;
  status.set_rank(plan_.rank);
  status.set_pid(static_cast<uint32_t>(process_->pid()));
  status.set_step(step_);
  status.set_total_steps(progress_.total_steps);
  status.set_epoch(progress_.epoch);
  status.set_phase(progress_.phase);
  for (const auto& [name, value] : latest_) (*status.mutable_latest())[name] = value;
  if (progress_.beats > 0)
    (*status.mutable_latest())[kPhaseBeats] = static_cast<double>(progress_.beats);
}

// ---- what the rank says ----

void Rank::Tell(const AgentLine& line) {
  if (link_.has_value()) link_->Send(line);
  if (plan_.socket == nullptr) return;
  answer_to_ != 0 ? plan_.socket->Send(answer_to_, line) : plan_.socket->Broadcast(line);
}

void Rank::OnCommandLine(CommandSocket::ConnectionId from, RankLine line) {
  if (auto* metrics = std::get_if<MetricsLine>(&line)) {
    metrics->seq = ++command_seq_;
    if (metrics->time_ms == 0) metrics->time_ms = absl::ToUnixMillis(deps_.loop.clock().Now());
  }
  absl::Status good = CheckRankLine(line);
  if (std::holds_alternative<StoreLine>(line)) {
    good = absl::UnimplementedError("the gang's store is the trainer's; use MASTER_ADDR");
  }
  if (!good.ok()) {
    if (std::holds_alternative<MetricsLine>(line)) --command_seq_;
    plan_.socket->Send(from, ErrorLine{std::string(good.message())});
    return;
  }
  if (std::holds_alternative<HelloLine>(line)) return;
  if (const auto* checkpoint = std::get_if<CheckpointLine>(&line)) return Offer(from, *checkpoint);
  answer_to_ = from;
  OnLine(std::move(line));
  answer_to_ = 0;
}

void Rank::Offer(CommandSocket::ConnectionId from, const CheckpointLine& line) {
  if (line.kind != CheckpointLine::Kind::kOffer) {
    plan_.socket->Send(from, ErrorLine{"a command's checkpoint line has the kind `offer`"});
  } else if (checkpoints_ == nullptr) {
    plan_.socket->Send(from, ErrorLine{"only rank 0 hands checkpoints over"});
  } else {
    plan_.socket->Owe(from);
    checkpoints_->Offer(from, line);
  }
}

void Rank::OnLine(RankLine line) {
  if (const absl::Status good = CheckRankLine(line); !good.ok()) return OnBrokenLink(good);
  if (auto* store = std::get_if<StoreLine>(&line)) {
    deps_.host.OnStoreLine(*this, std::move(*store));
    return;
  }
  if (const auto* hello = std::get_if<HelloLine>(&line)) On(*hello);
  if (auto* metrics = std::get_if<MetricsLine>(&line)) On(*metrics);
  if (const auto* progress = std::get_if<ProgressLine>(&line)) On(*progress);
  if (const auto* checkpoint = std::get_if<CheckpointLine>(&line)) On(*checkpoint);
  if (auto* memory = std::get_if<MemoryLine>(&line)) memory_need_ = std::move(memory->need);
  if (auto* result = std::get_if<ResultLine>(&line)) {
    facts_.result_before_stop = !stop_.has_value();
    facts_.result = std::move(*result);
  }
  if (first_step_.Seen(line)) ReportRunning();
}

void Rank::On(const HelloLine& line) {
  if (line.protocol_version == kProtocolVersion && line.rank == plan_.rank) return;
  OnBrokenLink(absl::FailedPreconditionError(absl::StrCat(
      "muster-trainer ", line.version, " speaks protocol ", line.protocol_version, " as rank ",
      line.rank, "; this agent speaks ", kProtocolVersion, " and started rank ", plan_.rank)));
}

void Rank::On(MetricsLine& line) {
  if (joules_at_start_.has_value()) {
    const std::optional<double> joules = deps_.energy.Joules(plan_.slots);
    if (joules.has_value()) line.values["energy_joules"] = *joules - *joules_at_start_;
  }
  for (const auto& [name, value] : line.values) {
    if (latest_.size() < kMaxLatestValues || latest_.contains(name)) latest_[name] = value;
  }
  step_ = std::max(step_, line.step);
  ExportMetrics(line);
  if (plan_.is_command) return SpoolMetrics(line);
  switch (metrics_.TurnOf(line)) {
    case MetricsIntake::Turn::kNow:
      return SpoolMetrics(line);
    case MetricsIntake::Turn::kTaken:
      return Tell(AckLine{.seq = metrics_.taken()});
    case MetricsIntake::Turn::kLater:
      return Tell(AckLine{.seq = metrics_.taken(), .again = true});
  }
}

void Rank::SpoolMetrics(const MetricsLine& line) {
  v1::MetricRecord record;
  SetKey(key(), record);
  record.set_seq(line.seq);
  for (const auto& [name, value] : line.values) {
    v1::MetricPoint& point = *record.add_points();
    point.set_name(name);
    point.set_step(line.step);
    point.set_time_ms(line.time_ms);
    point.set_value(value);
  }
  const absl::Status spooled = deps_.spool.Append(record);
  const bool never = absl::IsInvalidArgument(spooled);
  // The gap says so where the numbers would be. A trainer keeps its own, and sends them again.
  if (never || (!spooled.ok() && plan_.is_command)) deps_.spool.RecordLoss(record);
  if (spooled.ok() || never) {
    const std::optional<LostMetrics> lost = metrics_.LostBefore(line);
    if (lost.has_value() && !plan_.is_command)
      deps_.spool.RecordLoss(key(), lost->first, lost->last);
    metrics_.Took(line);
    Tell(AckLine{.seq = line.seq});
  } else if (!plan_.is_command) {
    Tell(AckLine{.seq = metrics_.taken(), .again = true});
  }
  if (spooled.ok()) return;
  Log(LogLevel::kError, "metrics_not_spooled",
      {{"job", plan_.fence.job_id()},
       {"rank", plan_.rank},
       {"seq", line.seq},
       {"error", spooled.ToString()}});
}

void Rank::On(const ProgressLine& line) {
  const bool new_phase = line.phase != progress_.phase;
  progress_ = line;
  step_ = std::max(step_, line.step);
  const std::vector<std::string> labels = {absl::StrCat(plan_.fence.job_id()),
                                           absl::StrCat(plan_.rank)};
  deps_.families.Set(metric::kRankStep, labels, static_cast<double>(step_));
  deps_.families.Set(metric::kRankEpoch, labels, line.epoch);
  if (new_phase) deps_.host.OnPhaseChange();
}

void Rank::On(const CheckpointLine& line) {
  if (line.kind == CheckpointLine::Kind::kOffer) {
    return OnBrokenLink(absl::InvalidArgumentError("checkpoint line: `offer` is for commands"));
  }
  if (line.kind == CheckpointLine::Kind::kReady) {
    waiting_publish_ = line.step;
    TryPublish();
    return;
  }
  v1::CheckpointEvent event;
  *event.mutable_fence() = plan_.fence;
  event.set_kind(EventKind(line.kind));
  event.set_step(line.step);
  event.set_path(line.path);
  event.set_manifest_sha256(line.manifest_sha256);
  event.set_bytes(line.bytes);
  event.set_epoch(line.epoch);
  for (const auto& [name, value] : line.metrics) (*event.mutable_metrics())[name] = value;
  event.set_best(line.best);
  event.set_message(line.message);
  deps_.host.OnCheckpointEvent(std::move(event));
}

void Rank::TryPublish() {
  if (checkpoints_ != nullptr) checkpoints_->TryPublish();
  const bool killed = stop_.has_value() && stop_->mode == v1::StopRanks::KILL;
  const bool over = killed || unkillable_;
  if (!waiting_publish_.has_value() || over || !deps_.host.LeaseAllowsPublish()) return;
  Tell(PublishLine{.step = *waiting_publish_});
  waiting_publish_.reset();
}

void Rank::OnCheckpointAck(int64_t step, const std::string& error) {
  if (checkpoints_ != nullptr) return checkpoints_->OnAck(step, error);
  Tell(CommittedLine{.step = step, .error = error});
}

void Rank::ExportMetrics(const MetricsLine& line) {
  const std::string job = absl::StrCat(plan_.fence.job_id());
  const std::string rank = absl::StrCat(plan_.rank);
  for (const auto& [name, value] : line.values) {
    const ReportedValue* exported = FindReportedValue(name);
    if (exported == nullptr || exported->of_rank == nullptr) continue;
    std::vector<std::string> labels = {job, rank};
    if (exported->last_label != nullptr) labels.push_back(exported->last_label);
    deps_.families.Set(*exported->of_rank, labels, value);
  }
}

void Rank::ReportRunning() {
  if (std::exchange(running_, true)) return;
  deps_.host.OnRankEvent(MakeEvent(v1::RankEvent::RUNNING));
}

void Rank::OnBrokenLink(const absl::Status& status) {
  if (!facts_.broken_link.empty()) return;
  facts_.broken_link = std::string(status.message());
  Log(LogLevel::kError, "rank_link_broken",
      {{"job", plan_.fence.job_id()}, {"rank", plan_.rank}, {"error", status.ToString()}});
  KillAll();
}

// ---- its end ----

void Rank::Stop(StopRequest request) {
  if (finishing_ && request.mode != v1::StopRanks::SAVE) {
    // Nothing is left to end but the copying of what it offered.
    checkpoints_.reset();
    return FinishWhenSaved();
  }
  const bool over = ended_ && !RestMaySave();
  if (over || (stop_.has_value() && !IsHarsher(request, *stop_))) return;
  Log(LogLevel::kInfo, "rank_stopping",
      {{"job", plan_.fence.job_id()},
       {"attempt", plan_.fence.attempt()},
       {"rank", plan_.rank},
       {"mode", v1::StopRanks::Mode_Name(request.mode)},
       {"reason", request.reason}});
  stop_ = std::move(request);
  stop_began_ = deps_.loop.clock().SinceBoot();
  stop_taken_ = StopAction::kWait;
  TakeStopStep();
}

void Rank::TakeStopStep() {
  if (ended_ && !RestMaySave()) return;
  const absl::Duration elapsed = deps_.loop.clock().SinceBoot() - stop_began_;
  const StopStep step = NextStopStep(*stop_, elapsed, stop_taken_);
  if (step.action != StopAction::kWait) stop_taken_ = step.action;
  if (step.action == StopAction::kAskToSave) {
    Tell(StopLine{.save = true, .reason = stop_->reason});
    // The leader alone, as it alone knows what else must live while it saves; ClearRemains tells
    // the rest when it dies of that.
    if (plan_.is_command) process_->Signal(SIGTERM);
  } else if (step.action == StopAction::kTerminate) {
    Tell(StopLine{.save = false, .reason = stop_->reason});
    plan_.is_command ? process_->SignalGroup(SIGTERM) : process_->Signal(SIGTERM);
  } else if (step.action == StopAction::kKill) {
    KillAll();
  }
  if (step.next_in == absl::InfiniteDuration()) return;
  deps_.loop.Cancel(stop_timer_);
  stop_timer_ = deps_.loop.After(step.next_in, [this] { TakeStopStep(); });
}

void Rank::KillAll() {
  if (plan_.cgroup != nullptr && !plan_.cgroup->IsEmpty()) plan_.cgroup->Kill();
  for (const auto& weak : exec_cgroups_) {
    const std::shared_ptr<RankCgroup> cgroup = weak.lock();
    if (cgroup != nullptr && !cgroup->IsEmpty()) cgroup->Kill();
  }
  if (container_ != nullptr && !ended_) container_->Kill();
  process_->SignalGroup(SIGKILL);
  if (kill_timer_ == 0) {
    kill_timer_ = deps_.loop.After(deps_.kill_patience, [this] { OnKillInVain(); });
  }
}

void Rank::OnKillInVain() {
  if (finishing_) return;
  const std::string trouble = container_ == nullptr ? "" : container_->RemovalTrouble();
  if (!trouble.empty()) {
    return SayUnkillable(absl::StrCat("job ", plan_.fence.job_id(), ", rank ", plan_.rank, ": ",
                                      trouble, "; it holds its slots until its container is gone"));
  }
  pid_t living = process_->pid();
  if (ended_) {
    const std::vector<ProcessId> remains = FindRemains();
    if (!remains.empty()) living = remains.front().pid;
  }
  SayUnkillable(absl::StrCat("process ", living, " of job ", plan_.fence.job_id(), ", rank ",
                             plan_.rank, ", did not die within ",
                             HumanDuration(deps_.kill_patience),
                             " of SIGKILL; it holds its slots until it does"));
}

void Rank::SayUnkillable(const std::string& what) {
  unkillable_ = true;
  process_->GiveUp();
  // Its gang goes on elsewhere.
  waiting_publish_.reset();
  checkpoints_.reset();
  v1::RankEvent event = MakeEvent(v1::RankEvent::UNKILLABLE);
  event.set_failure_class(!facts_.over_memory.empty()   ? v1::OUT_OF_MEMORY
                          : !facts_.broken_link.empty() ? v1::APPLICATION
                                                        : v1::WORKER_LOST);
  event.set_message(what);
  deps_.host.OnUnkillable(std::move(event));
}

void Rank::Check() {
  if (checkpoints_ != nullptr) checkpoints_->GiveUpWhatHangs();
  CheckMemory();
}

void Rank::CheckMemory() {
  if (plan_.memory_bytes == 0 || ended_ || !facts_.over_memory.empty()) return;
  if (plan_.cgroup != nullptr && plan_.cgroup->limits_memory()) return;
  if (container_ != nullptr && container_->limits_memory()) return;
  const uint64_t held = ResidentBytes(FindProcesses(process_->pid(), plan_.folder));
  if (held <= plan_.memory_bytes) return;
  facts_.over_memory = absl::StrCat("held ", HumanBytes(static_cast<double>(held)),
                                    " of memory; per_rank.memory is ",
                                    HumanBytes(static_cast<double>(plan_.memory_bytes)));
  AddMemoryNeed();
  Log(LogLevel::kWarning, "rank_over_memory",
      {{"job", plan_.fence.job_id()}, {"rank", plan_.rank}, {"error", facts_.over_memory}});
  KillAll();
}

void Rank::NoteOutOfMemory() {
  const std::optional<uint64_t> held =
      plan_.cgroup == nullptr ? std::nullopt : plan_.cgroup->OutOfMemoryAt();
  const bool of_container = container_ != nullptr && container_->out_of_memory();
  if (!held.has_value() && !of_container) return;
  facts_.over_memory =
      absl::StrCat("needed more memory than the ",
                   HumanBytes(static_cast<double>(plan_.memory_bytes)), " of per_rank.memory");
  if (held.has_value()) {
    absl::StrAppend(&facts_.over_memory, "; it held ", HumanBytes(static_cast<double>(*held)),
                    " when it was ended");
  }
  AddMemoryNeed();
}

void Rank::AddMemoryNeed() {
  if (!memory_need_.empty()) absl::StrAppend(&facts_.over_memory, "; ", memory_need_);
}

void Rank::PumpLogs() {
  const absl::StatusOr<bool> more = logs_.Pump(/*final=*/false);
  if (!more.ok())
    Log(LogLevel::kWarning, "logs_not_spooled", {{"error", more.status().ToString()}});
  const std::vector<std::string> labels = {absl::StrCat(plan_.fence.job_id()),
                                           absl::StrCat(plan_.rank)};
  deps_.families.Set(metric::kRankLogBytesTotal, labels, static_cast<double>(logs_.taken_bytes()));
  const bool at_once = more.ok() && *more;
  log_timer_ =
      deps_.loop.After(at_once ? absl::ZeroDuration() : kLogInterval, [this] { PumpLogs(); });
}

void Rank::ClearRemains() {
  const std::optional<ExitStatus> exit = process_->Ended();
  if (!exit.has_value()) return;
  if (!std::exchange(ended_, true)) {
    ExitStatus end = *exit;
    if (container_ != nullptr) {
      const absl::Status ran = container_->ClassifyEnd(end);
      // Who was told to stop need not have begun.
      if (!stop_.has_value()) facts_.start_error = ran;
    }
    facts_.exit_code = end.code;
    facts_.signal = end.signal;
    deps_.loop.Unwatch(process_->exit_fd());
    // Its last words may be what it needs the memory for.
    if (link_.has_value()) link_->Drain();
    NoteOutOfMemory();
  }
  if (RestMaySave()) {
    const std::vector<ProcessId> rest = FindRemains();
    if (!std::exchange(rest_told_, true)) {
      for (const ProcessId& process : rest) SignalProcess(process, SIGTERM);
    }
    if (!rest.empty() || ScanIncomplete()) {
      clear_timer_ = deps_.loop.After(kClearInterval, [this] { ClearRemains(); });
      return;
    }
  }
  KillAll();
  const std::vector<ProcessId> remains = FindRemains();
  for (const ProcessId& process : remains) SignalProcess(process, SIGKILL);
  // A process that the cgroup still counts holds what it held, though no list shows it any more.
  const bool none_found = remains.empty() && !ScanIncomplete();
  const bool is_clear = none_found && !HoldsCgroups();
  if (is_clear && (container_ == nullptr || !container_->AwaitMonitor())) {
    // Its last words may be an offer.
    if (link_.has_value()) link_->Drain();
    if (plan_.socket != nullptr) plan_.socket->Drain();
    // A killed attempt publishes nothing any more.
    if (stop_.has_value() && stop_->mode == v1::StopRanks::KILL) checkpoints_.reset();
    if (container_ == nullptr || !container_->by_podman()) return OnCleared();
    return container_->Remove([this] { OnCleared(); });
  }
  clear_timer_ = deps_.loop.After(unkillable_ ? kSlowClearInterval : kClearInterval,
                                  [this] { ClearRemains(); });
}

void Rank::OnCleared() {
  finishing_ = true;
  FinishWhenSaved();
}

bool Rank::RestMaySave() const {
  return ended_ && plan_.is_command && stop_taken_ == StopAction::kAskToSave &&
         (facts_.signal == SIGTERM || facts_.exit_code == 128 + SIGTERM);
}

absl::StatusOr<RankExecContext> Rank::ExecContext(bool terminal,
                                                  std::shared_ptr<RankCgroup> cgroup) {
  if (ended_ || unkillable_) {
    return absl::FailedPreconditionError(absl::StrCat("rank ", plan_.rank, " has ended"));
  }
  RankExecContext context;
  context.command = plan_.command;
  if (plan_.container.has_value()) {
    if (!container_->by_podman()) {
      return absl::FailedPreconditionError(
          "the rank runs in a container of apptainer, which lets nothing in that begins later");
    }
    context.runtime_words = ExecWords(plan_.command.program, plan_.container->name, terminal);
  }
  // The first to go when memory is short.
  context.command.oom_score_adj = kExecOomScore;
  context.command.cgroup_fd = cgroup == nullptr ? -1 : cgroup->fd();
  context.rank_end.Reset(::fcntl(process_->exit_fd(), F_DUPFD_CLOEXEC, 0));
  if (!context.rank_end.valid()) {
    return absl::ResourceExhaustedError("the agent has no file descriptor left");
  }
  const auto unfinished = std::make_shared<char>();
  std::erase_if(execs_, [](const auto& other) { return other.expired(); });
  execs_.push_back(unfinished);
  context.unfinished = unfinished;
  std::erase_if(exec_cgroups_, [](const auto& other) { return other.expired(); });
  if (cgroup != nullptr) exec_cgroups_.push_back(cgroup);
  context.cgroup = std::move(cgroup);
  return context;
}

bool Rank::HoldsCgroups() const {
  bool holds = plan_.cgroup != nullptr && !plan_.cgroup->IsEmpty();
  for (const auto& weak : exec_cgroups_) {
    const std::shared_ptr<RankCgroup> cgroup = weak.lock();
    holds = holds || (cgroup != nullptr && !cgroup->IsEmpty());
  }
  return holds;
}

bool Rank::HasExecs() const {
  return std::any_of(execs_.begin(), execs_.end(),
                     [](const auto& exec) { return !exec.expired(); });
}

bool Rank::Owns(pid_t process) const {
  if (plan_.cgroup != nullptr && IsInCgroup(process, plan_.cgroup->name())) return true;
  return BelongsTo(process, process_->pid(), plan_.folder);
}

std::vector<ProcessId> Rank::FindRemains() {
  // What it left is an orphan, or descends from one; most ranks leave nothing. A program of `muster
  // exec` is the child of another thread.
  const std::optional<std::vector<pid_t>> orphans = deps_.children.ReapOrphans();
  if (orphans.has_value() && orphans->empty() && !HoldsCgroups() && !HasExecs()) return {};
  std::vector<ProcessId> remains = FindProcesses(process_->pid(), plan_.folder);
  if (!orphans.has_value()) return remains;
  // One that carries nothing of anybody's is of a rank that has ended: a living one keeps its own,
  // by its cgroup or as its own child. So it is counted to each that is being cleared.
  const uint64_t began = Identify(process_->pid()).started;
  // Without a container nothing is a helper of one, whatever it is called.
  const bool has_containers = deps_.host.HasContainers();
  for (const pid_t pid : *orphans) {
    const ProcessId orphan = Identify(pid);
    const bool is_new = std::find(remains.begin(), remains.end(), orphan) == remains.end();
    const bool is_helper = has_containers && IsRuntimeHelper(pid);
    if (!is_new || orphan.started < began || is_helper) continue;
    if (!deps_.host.IsOfAnother(key(), pid)) remains.push_back(orphan);
  }
  return remains;
}

void Rank::FinishWhenSaved() {
  if (!finishing_ || finished_ || (checkpoints_ != nullptr && !checkpoints_->idle())) return;
  finished_ = true;
  // Before the controller knows of the end; while the lease holds it has not given the rank up,
  // unless it was told that the rank cannot be killed.
  const bool gives_back =
      plan_.is_command && plan_.is_alone && !unkillable_ && deps_.host.LeaseAllowsPublish();
  if (!gives_back) return Finish();
  deps_.host.GiveBackOffers(plan_.checkpoint_root, [this, alive = alive_] {
    if (*alive) Finish();
  });
}

void Rank::Finish() {
  deps_.loop.Cancel(log_timer_);
  deps_.loop.Cancel(kill_timer_);
  process_->Reap();
  if (const auto lost = metrics_.LostAtEnd(); lost.has_value() && !plan_.is_command)
    deps_.spool.RecordLoss(key(), lost->first, lost->last);
  facts_.stop = stop_;
  facts_.is_command = plan_.is_command;
  v1::RankEvent event = MakeEvent(v1::RankEvent::EXITED);
  ClassifyExit(facts_, event);
  const auto written = logs_.WrittenBytes();
  const bool silent = written.has_value() && (*written)[0] + (*written)[1] == 0;
  if (written.has_value()) {
    event.set_stdout_bytes((*written)[0]);
    event.set_stderr_bytes((*written)[1]);
  }
  Log(LogLevel::kInfo, "rank_exited",
      {{"job", plan_.fence.job_id()},
       {"attempt", plan_.fence.attempt()},
       {"rank", plan_.rank},
       {"outcome", Outcome(event)},
       {"exit_code", event.exit_code()},
       {"signal", event.signal()},
       {"failure", v1::FailureClass_Name(event.failure_class())},
       {"message", event.message()}});
  deps_.families.Add(metric::kWorkerRanksExitedTotal, {Outcome(event)});
  deps_.families.RemoveMatching(
      {{"job_id", absl::StrCat(plan_.fence.job_id())}, {"rank", absl::StrCat(plan_.rank)}});
  deps_.host.OnRankEvent(std::move(event));
  deps_.host.OnGone(key(), silent);
}

}  // namespace muster::worker
