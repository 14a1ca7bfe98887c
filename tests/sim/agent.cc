#include "tests/sim/agent.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/metrics/metric_names.h"
#include "worker/agent/base/rank_key.h"

namespace muster::sim {
namespace {

constexpr absl::Duration kTick = absl::Seconds(1);
constexpr absl::Duration kTermReserve = absl::Seconds(5);
constexpr absl::Duration kFlushPatience = absl::Seconds(3);
constexpr absl::Duration kFlushPoll = absl::Milliseconds(100);
constexpr absl::Duration kLostControllerGrace = absl::Seconds(10);
constexpr absl::Duration kKillPatience = absl::Seconds(60);
constexpr absl::Duration kLookAtRootsEvery = absl::Seconds(5);

v1::CheckpointEvent::Kind EventKind(worker::CheckpointLine::Kind kind) {
  switch (kind) {
    case worker::CheckpointLine::Kind::kBegin:
      return v1::CheckpointEvent::BEGIN;
    case worker::CheckpointLine::Kind::kCommit:
      return v1::CheckpointEvent::COMMIT;
    case worker::CheckpointLine::Kind::kFailed:
      return v1::CheckpointEvent::FAILED;
    case worker::CheckpointLine::Kind::kUnread:
      return v1::CheckpointEvent::UNREAD;
    default:
      return v1::CheckpointEvent::CORRUPT;
  }
}

v1::RankEvent MakeEvent(const AgentRank& rank, v1::RankEvent::Kind kind) {
  v1::RankEvent event;
  *event.mutable_fence() = rank.fence;
  event.set_rank(rank.key.rank);
  event.set_kind(kind);
  event.set_pid(1000 + rank.key.rank);
  event.set_last_step(rank.step);
  return event;
}

}  // namespace

Agent::Agent(Agenda& agenda, Trace& trace, Storage& storage, Dice dice, std::string machine,
             v1::Hello hello, Past past, Host host)
    : agenda_(agenda),
      trace_(trace),
      storage_(storage),
      dice_(dice),
      machine_(std::move(machine)),
      hello_(std::move(hello)),
      host_(std::move(host)),
      execution_(agenda),
      families_(metric::kWorkerDroppedTotal),
      store_({.send = [this](v1::WorkerMessage m) { session_->SendMessage(std::move(m)); },
              .reply =
                  [this](const worker::RankKey& key, const worker::StoreReplyLine& reply) {
                    const auto it = ranks_.find(key);
                    if (it != ranks_.end()) it->second->process->OnLine(reply);
                  }}),
      leftovers_(std::move(past.leftovers)),
      data_dice_(std::hash<std::string>()(hello_.incarnation())) {
  worker::SessionHandler& handler = *this;
  session_ = std::make_unique<worker::Session>(
      execution_, host_.connect, families_, handler,
      worker::SessionOptions{.hello = hello_,
                             .near = dice_.Chance(0.5),
                             .seed = dice_.Next(),
                             .controller = std::move(past.controller)});
  bulk_ = host_.make_bulk(execution_);
}

Agent::~Agent() {
  for (const auto& [key, rank] : ranks_) {
    rank->process->to_agent = nullptr;
    rank->process->on_leader_exit = nullptr;
    rank->process->on_exit = nullptr;
  }
  execution_.Kill();
}

void Agent::Start() {
  session_->Start();
  Tick();
}

void Agent::Tick() {
  for (const auto& [key, rank] : ranks_) {
    if (session_->ControllerAway() < rank->controller_lost_timeout) continue;
    Stop(*rank, {v1::StopRanks::TERM, kLostControllerGrace, "the controller has been away"});
  }
  WatchLeftovers();
  store_.Sweep(agenda_.now());
  execution_.After(kTick, [this] { Tick(); });
}

// ---- session ----

void Agent::FillHello(v1::Hello& hello) {
  for (v1::RankStatus& status : RankStatuses()) *hello.add_ranks() = std::move(status);
  hello.set_last_assignment_seq(assignments_.highest());
  hello.set_takes_no_work(stopping_ || IsHeldBack());
}

std::vector<v1::RankStatus> Agent::RankStatuses() {
  std::vector<v1::RankStatus> statuses;
  for (const auto& [key, rank] : ranks_) {
    v1::RankStatus& status = statuses.emplace_back();
    *status.mutable_fence() = rank->fence;
    status.set_rank(key.rank);
    status.set_pid(1000 + key.rank);
    status.set_step(rank->step);
    status.set_total_steps(rank->progress.total_steps);
    status.set_epoch(rank->progress.epoch);
    status.set_phase(rank->progress.phase);
  }
  return statuses;
}

void Agent::OnSessionUp(const v1::Welcome& welcome) {
  trace_.Note(machine_, ": welcome of term ", welcome.term(), ", ", welcome.stale_size(), " stale");
  host_.on_controller(session_->controller());
  roots_said_ = false;
  ++data_stream_;
  verdicts_.clear();
  data_said_ = true;
  for (const v1::Welcome::StaleRank& stale : welcome.stale()) {
    for (const auto& [key, rank] : ranks_) {
      if (key.job_id == stale.job_id() && key.attempt == stale.attempt() &&
          key.rank == stale.rank()) {
        Stop(*rank, {v1::StopRanks::KILL, absl::ZeroDuration(), "stale"});
      }
    }
  }
  store_.SessionUp(welcome.term());
  if (bulk_ != nullptr) bulk_->SessionUp();
}

void Agent::OnSessionDown() {
  store_.SessionDown();
  if (bulk_ != nullptr) bulk_->SessionDown();
  if (stopping_) AskToSave();
}

void Agent::OnControllerMessage(const v1::ControllerMessage& message) {
  switch (message.body_case()) {
    case v1::ControllerMessage::kStoreReply:
      return store_.OnReply(message.store_reply());
    case v1::ControllerMessage::kCheckpointAck:
      return OnCheckpointAck(message.checkpoint_ack());
    case v1::ControllerMessage::kStartRanks: {
      const v1::StartRanks& start = message.start_ranks();
      if (!TakeAssignment(start.outbox_seq())) return;
      const absl::Status taken = StartRanks(start);
      trace_.Note(machine_, ": start job ", start.fence().job_id(), ".", start.fence().attempt(),
                  ": ", taken.ToString());
      return Acknowledge(start.outbox_seq(), std::string(taken.message()));
    }
    case v1::ControllerMessage::kStopRanks:
      if (!TakeAssignment(message.stop_ranks().outbox_seq())) return;
      StopRanks(message.stop_ranks());
      return Acknowledge(message.stop_ranks().outbox_seq(), "");
    case v1::ControllerMessage::kVerifyCheckpoint:
      if (TakeAssignment(message.verify_checkpoint().outbox_seq())) Care(message);
      return;
    case v1::ControllerMessage::kDeleteCheckpoint:
      if (TakeAssignment(message.delete_checkpoint().outbox_seq())) Care(message);
      return;
    case v1::ControllerMessage::kWatchRoots:
      return Watch(message.watch_roots());
    case v1::ControllerMessage::kCheckData:
      return LookAtData(message.check_data());
    default:
      return;
  }
}

// ---- checkpoint roots: worker/agent/checkpoint/root_watcher.cc ----

std::optional<v1::RootReport> Agent::Roots() {
  if (std::exchange(roots_said_, true)) return std::nullopt;
  return roots_;
}

void Agent::Watch(const v1::WatchRoots& roots) {
  watched_ = roots;
  execution_.After(dice_.Between(absl::Milliseconds(2), absl::Milliseconds(400)),
                   [this, question = ++question_] { LookAtRoots(question); });
}

void Agent::LookAtRoots(uint64_t question) {
  if (question != question_) return;
  v1::RootReport report;
  for (const v1::WatchRoots::Root& asked : watched_.roots()) {
    v1::RootReport::Root& root = *report.add_roots();
    root.set_path(asked.path());
    if (!storage_.IsSeenBy(machine_)) {
      root.set_message("its marker is not there");
      continue;
    }
    if (asked.identity().empty() && storage_.marker.empty()) storage_.marker = asked.claim();
    if (asked.identity().empty() || asked.identity() == storage_.marker) {
      root.set_identity(storage_.marker);
    } else {
      root.set_message("another root is there");
    }
  }
  if (report.SerializeAsString() != roots_.SerializeAsString()) {
    roots_ = std::move(report);
    roots_said_ = false;
    session_->HeartbeatNow();
  }
  execution_.After(kLookAtRootsEvery, [this, question] { LookAtRoots(question); });
}

// ---- data of jobs: worker/agent/data/data_checker.cc ----

std::optional<v1::DataReport> Agent::Data() {
  if (std::exchange(data_said_, true)) return std::nullopt;
  v1::DataReport report;
  for (const auto& [key, verdict] : verdicts_) *report.add_verdicts() = verdict;
  return report;
}

void Agent::LookAtData(const v1::CheckData& check) {
  if (!hello_.checks_data()) trace_.Fail(machine_, " cannot look at data, and was asked to");
  // Now and then it makes an index first.
  const absl::Duration longest =
      data_dice_.Chance(0.05) ? absl::Minutes(15) : absl::Milliseconds(900);
  execution_.After(data_dice_.Between(absl::Milliseconds(5), longest),
                   [this, check, stream = data_stream_] {
                     if (stream == data_stream_) OnDataLookedAt(check);
                   });
}

void Agent::OnDataLookedAt(const v1::CheckData& check) {
  v1::DataReport::Verdict& verdict = verdicts_[check.key()];
  verdict.Clear();
  verdict.set_key(check.key());
  verdict.set_number(check.number());
  const double luck = data_dice_.Unit();
  if (luck < 0.02) {
    verdict.set_fault("broken");
  } else if (luck < 0.12) {
    verdict.set_fault("missing");
  } else if (luck < 0.16) {
    verdict.set_fault("unavailable");
  } else if (luck < 0.95) {
    verdict.set_fingerprint(luck < 0.2 ? "another" : "usual");
  }
  storage_.data_looks[hello_.incarnation()][check.key()] = verdict.fault().empty();
  data_said_ = false;
  session_->HeartbeatNow();
}

bool Agent::TakeAssignment(uint64_t outbox_seq) {
  if (assignments_.Take(outbox_seq)) return true;
  const auto answer = assignments_.AnswerOf(outbox_seq);
  if (answer.has_value()) Acknowledge(outbox_seq, *answer);
  return false;
}

void Agent::Acknowledge(uint64_t outbox_seq, const std::string& refusal) {
  assignments_.Answer(outbox_seq, refusal);
  v1::WorkerMessage message;
  message.mutable_assignment_ack()->set_outbox_seq(outbox_seq);
  message.mutable_assignment_ack()->set_refusal(refusal);
  session_->SendMessage(std::move(message));
}

// Rereads or deletes a checkpoint, beside everything else.
void Agent::Care(const v1::ControllerMessage& message) {
  const absl::Duration work = dice_.Between(absl::Milliseconds(100), absl::Seconds(6));
  const bool unreadable = dice_.Chance(0.03);
  execution_.After(work, [this, message, unreadable] {
    const bool is_verify = message.has_verify_checkpoint();
    const uint64_t seq = is_verify ? message.verify_checkpoint().outbox_seq()
                                   : message.delete_checkpoint().outbox_seq();
    if (is_verify && unreadable) return Acknowledge(seq, "cannot be read now");
    if (!storage_.IsSeenBy(machine_)) return Acknowledge(seq, "root is not seen");
    v1::WorkerMessage result;
    if (is_verify) {
      const v1::VerifyCheckpoint& verify = message.verify_checkpoint();
      const absl::Status whole =
          storage_.Read(verify.path(), verify.manifest_sha256(), storage_.MisreadingOf(machine_));
      trace_.Note(machine_, ": verify ", verify.path(), ": ", whole.ToString());
      const bool judged = whole.ok() || absl::IsDataLoss(whole) || absl::IsNotFound(whole);
      if (!judged) return Acknowledge(seq, std::string(whole.message()));
      if (absl::IsNotFound(whole)) storage_.NoteCalledMissing(verify.path());
      result.mutable_verify_result()->set_outbox_seq(seq);
      result.mutable_verify_result()->set_checkpoint_id(verify.checkpoint_id());
      result.mutable_verify_result()->set_ok(whole.ok());
      result.mutable_verify_result()->set_missing(absl::IsNotFound(whole));
      result.mutable_verify_result()->set_message(std::string(whole.message()));
    } else {
      const v1::DeleteCheckpoint& remove = message.delete_checkpoint();
      trace_.Note(machine_, ": delete ", remove.path());
      storage_.Delete(remove.path());
      result.mutable_delete_result()->set_outbox_seq(seq);
      result.mutable_delete_result()->set_checkpoint_id(remove.checkpoint_id());
      result.mutable_delete_result()->set_ok(true);
    }
    session_->SendEvent(std::move(result));
    Acknowledge(seq, "");
  });
}

void Agent::OnCheckpointAck(const v1::CheckpointAck& ack) {
  if (ack.error().empty()) {
    host_.on_committed(ack.fence().job_id(), ack.fence().attempt(), ack.step());
  }
  for (const auto& [key, rank] : ranks_) {
    const bool same = key.job_id == ack.fence().job_id() && key.attempt == ack.fence().attempt();
    if (same && key.rank == 0) {
      rank->process->OnLine(worker::CommittedLine{.step = ack.step(), .error = ack.error()});
    }
  }
}

void Agent::OnLeaseRenewed() {
  for (const auto& [key, rank] : ranks_) TryPublish(*rank);
}

void Agent::OnRefused(absl::Status status) {
  trace_.Note(machine_, ": refused for good: ", status.ToString());
  stopping_ = true;
  StopAll({v1::StopRanks::KILL, absl::ZeroDuration(), "the controller refused this agent"});
  OnRanksChanged();
}

// ---- ranks ----

absl::Status Agent::StartRanks(const v1::StartRanks& start) {
  if (!leftovers_.empty()) return absl::UnavailableError("what was left here does not die");
  worker::StartContext context;
  context.draining = stopping_;
  context.session_term = session_->term();
  context.allow_commands = true;
  for (const v1::Slot& slot : hello_.slots()) context.slots.insert(slot.index());
  for (const auto& [key, rank] : ranks_) {
    context.busy_slots.insert(rank->slots.begin(), rank->slots.end());
  }
  const auto settings = worker::CheckStart(start, context, fences_, specs_);
  if (!settings.ok()) return settings.status();
  fences_.RaiseTo(start.fence().job_id(), start.fence().attempt());
  for (const v1::StartRanks::Rank& rank : start.ranks()) {
    StartOne(start, rank, *settings);
  }
  return absl::OkStatus();
}

void Agent::StartOne(const v1::StartRanks& start, const v1::StartRanks::Rank& rank,
                     const worker::SpecSettings& settings) {
  auto mine = std::make_unique<AgentRank>();
  mine->key = worker::MakeRankKey(start.fence(), rank.rank());
  mine->fence = start.fence();
  mine->slots.assign(rank.slots().begin(), rank.slots().end());
  mine->controller_lost_timeout = settings.controller_lost_timeout;
  mine->facts.is_command = settings.command.has_value();
  mine->numbers.key = mine->key;
  mine->numbers.is_command = mine->facts.is_command;
  mine->progress.phase = mine->facts.is_command ? "run" : "start";
  mine->process = host_.spawn({.key = mine->key,
                               .slots = mine->slots,
                               .world_size = start.world_size(),
                               .checkpoint_root = start.checkpoint_root(),
                               .resume = {start.resume().begin(), start.resume().end()},
                               .plan = DecodePlan(start.spec_json()),
                               .machine = machine_});
  AgentRank* raw = mine.get();
  mine->process->to_agent = [this, raw](worker::RankLine line) {
    execution_.Run([this, raw, line = std::move(line)] { OnLine(*raw, line); });
  };
  mine->process->on_leader_exit = [this, key = mine->key] {
    execution_.After(absl::Milliseconds(5), [this, key] { OnLeaderExit(key); });
  };
  mine->process->on_exit = [this, key = mine->key](ProcessExit exit) {
    execution_.After(absl::Milliseconds(5), [this, key, exit] { OnExit(key, exit); });
  };
  ranks_[mine->key] = std::move(mine);
  if (!raw->facts.is_command) SendRankEvent(MakeEvent(*raw, v1::RankEvent::STARTED));
  raw->process->Start();
}

void Agent::StopRanks(const v1::StopRanks& stop) {
  trace_.Note(machine_, ": stop job ", stop.fence().job_id(), ".", stop.fence().attempt(), " ",
              v1::StopRanks::Mode_Name(stop.mode()));
  fences_.RaiseTo(stop.fence().job_id(), stop.fence().attempt() + 1);
  const worker::StopRequest request{
      stop.mode(), absl::Milliseconds(std::max<int64_t>(0, stop.grace_ms())), stop.reason()};
  for (const auto& [key, rank] : ranks_) {
    if (key.job_id == stop.fence().job_id() && key.attempt <= stop.fence().attempt()) {
      Stop(*rank, request);
    }
  }
}

void Agent::StopAll(const worker::StopRequest& request) {
  for (const auto& [key, rank] : ranks_) Stop(*rank, request);
}

void Agent::Stop(AgentRank& rank, worker::StopRequest request) {
  if (rank.ended || (rank.stop.has_value() && !worker::IsHarsher(request, *rank.stop))) return;
  rank.stop = std::move(request);
  rank.stop_began = agenda_.now();
  rank.stop_taken = worker::StopAction::kWait;
  TakeStopStep(rank);
}

void Agent::TakeStopStep(AgentRank& rank) {
  const worker::StopStep step =
      worker::NextStopStep(*rank.stop, agenda_.now() - rank.stop_began, rank.stop_taken);
  if (step.action != worker::StopAction::kWait) rank.stop_taken = step.action;
  if (step.action == worker::StopAction::kAskToSave) {
    rank.process->OnLine(worker::StopLine{.save = true, .reason = rank.stop->reason});
    if (rank.facts.is_command) rank.process->Terminate();
  } else if (step.action == worker::StopAction::kTerminate) {
    rank.process->OnLine(worker::StopLine{.save = false, .reason = rank.stop->reason});
    rank.process->Terminate();
  } else if (step.action == worker::StopAction::kKill) {
    Kill(rank);
  }
  if (step.next_in == absl::InfiniteDuration()) return;
  execution_.Cancel(rank.stop_timer);
  rank.stop_timer = execution_.After(step.next_in, [this, key = rank.key] {
    const auto it = ranks_.find(key);
    if (it != ranks_.end()) TakeStopStep(*it->second);
  });
}

void Agent::Kill(AgentRank& rank) {
  rank.process->Kill();
  if (rank.kill_timer != 0) return;
  rank.kill_timer = execution_.After(kKillPatience, [this, key = rank.key] { OnKillInVain(key); });
}

void Agent::OnKillInVain(const worker::RankKey& key) {
  const auto it = ranks_.find(key);
  if (it == ranks_.end()) return;
  AgentRank& rank = *it->second;
  trace_.Note(machine_, ": job ", key.job_id, ".", key.attempt, " rank ", key.rank,
              " does not die");
  rank.unkillable = true;
  rank.waiting_publish.reset();
  v1::RankEvent event = MakeEvent(rank, v1::RankEvent::UNKILLABLE);
  event.set_failure_class(v1::WORKER_LOST);
  event.set_message("it did not die of SIGKILL");
  SendRankEvent(std::move(event));
  GiveNotice("a rank does not die", absl::ZeroDuration());
}

void Agent::GiveNotice(const std::string& message, absl::Duration grace, bool withdrawn) {
  v1::WorkerMessage notice;
  notice.mutable_notice()->set_message(message);
  notice.mutable_notice()->set_grace_ms(absl::ToInt64Milliseconds(grace));
  notice.mutable_notice()->set_withdrawn(withdrawn);
  session_->SendEvent(std::move(notice));
}

// Nobody knows any more which slots they hold: nothing starts here until they are dead.
void Agent::WatchLeftovers() {
  if (leftovers_.empty()) return;
  if (!std::exchange(leftovers_said_, true)) {
    GiveNotice("what an earlier agent left does not die", absl::ZeroDuration());
  }
  std::erase_if(leftovers_, [](const auto& process) { return !process->alive(); });
  SayFitAgain();
}

bool Agent::IsHeldBack() const {
  const bool any_unkillable = std::any_of(ranks_.begin(), ranks_.end(),
                                          [](const auto& rank) { return rank.second->unkillable; });
  return any_unkillable || !leftovers_.empty();
}

void Agent::SayFitAgain() {
  if (IsHeldBack() || stopping_) return;
  GiveNotice("what was in the way is over", absl::ZeroDuration(), /*withdrawn=*/true);
}

void Agent::OnLine(AgentRank& rank, worker::RankLine line) {
  if (!worker::CheckRankLine(line).ok()) return Kill(rank);
  if (auto* store = std::get_if<worker::StoreLine>(&line)) {
    store_.Request(rank.fence, rank.key.rank, rank.running, std::move(*store), agenda_.now());
    return;
  }
  if (const auto* metrics = std::get_if<worker::MetricsLine>(&line)) {
    rank.step = std::max(rank.step, metrics->step);
    const auto tell = [&rank](const worker::AckLine& ack) { rank.process->OnLine(ack); };
    if (bulk_ != nullptr) bulk_->OnMetrics(rank.numbers, *metrics, tell);
  }
  if (const auto* progress = std::get_if<worker::ProgressLine>(&line)) {
    const bool new_phase = progress->phase != rank.progress.phase;
    rank.progress = *progress;
    rank.step = std::max(rank.step, progress->step);
    if (new_phase) session_->HeartbeatNow();
    // The gang has met, in its agents: only now a command is started, and then it runs.
    if (rank.facts.is_command && !rank.running && progress->phase == "load") {
      SendRankEvent(MakeEvent(rank, v1::RankEvent::STARTED));
      ReportRunning(rank);
    }
  }
  if (const auto* checkpoint = std::get_if<worker::CheckpointLine>(&line)) {
    OnCheckpointLine(rank, *checkpoint);
  }
  if (auto* result = std::get_if<worker::ResultLine>(&line)) {
    rank.facts.result_before_stop = !rank.stop.has_value();
    rank.facts.result = std::move(*result);
  }
  if (rank.first_step.Seen(line)) ReportRunning(rank);
}

void Agent::ReportRunning(AgentRank& rank) {
  if (std::exchange(rank.running, true)) return;
  SendRankEvent(MakeEvent(rank, v1::RankEvent::RUNNING));
}

void Agent::OnCheckpointLine(AgentRank& rank, const worker::CheckpointLine& line) {
  if (line.kind == worker::CheckpointLine::Kind::kReady) {
    rank.waiting_publish = line.step;
    return TryPublish(rank);
  }
  v1::WorkerMessage message;
  v1::CheckpointEvent& event = *message.mutable_checkpoint_event();
  *event.mutable_fence() = rank.fence;
  event.set_kind(EventKind(line.kind));
  event.set_step(line.step);
  event.set_path(line.path);
  event.set_manifest_sha256(line.manifest_sha256);
  event.set_bytes(line.bytes);
  event.set_best(line.best);
  event.set_message(line.message);
  session_->SendEvent(std::move(message));
}

void Agent::TryPublish(AgentRank& rank) {
  const bool killed = rank.stop.has_value() && rank.stop->mode == v1::StopRanks::KILL;
  const bool over = killed || rank.unkillable || rank.ended;
  if (!rank.waiting_publish.has_value() || over || !session_->LeaseAllowsPublish()) return;
  host_.on_publish(rank.key.job_id, rank.key.attempt);
  rank.process->OnLine(worker::PublishLine{.step = *rank.waiting_publish});
  rank.waiting_publish.reset();
}

// Rank::ClearRemains: what it left is found, by its cgroup or since the agent inherits it, and the
// rank has not ended before that is dead.
void Agent::OnLeaderExit(const worker::RankKey& key) {
  const auto it = ranks_.find(key);
  if (it == ranks_.end()) return;
  AgentRank& rank = *it->second;
  rank.ended = true;
  execution_.Cancel(rank.stop_timer);
  Kill(rank);
}

void Agent::OnExit(const worker::RankKey& key, ProcessExit exit) {
  const auto it = ranks_.find(key);
  if (it == ranks_.end()) return;
  AgentRank& rank = *it->second;
  execution_.Cancel(rank.stop_timer);
  execution_.Cancel(rank.kill_timer);
  rank.facts.exit_code = exit.code;
  rank.facts.signal = exit.signal;
  rank.facts.stop = rank.stop;
  v1::RankEvent event = MakeEvent(rank, v1::RankEvent::EXITED);
  worker::ClassifyExit(rank.facts, event);
  trace_.Note(machine_, ": exited job ", key.job_id, ".", key.attempt, " rank ", key.rank, ": ",
              event.succeeded() ? "succeeded"
              : event.stopped() ? "stopped"
                                : v1::FailureClass_Name(event.failure_class()));
  if (bulk_ != nullptr) bulk_->OnRankGone(rank.numbers);
  SendRankEvent(std::move(event));
  store_.Forget(key);
  rank.process->to_agent = nullptr;
  const bool was_unkillable = rank.unkillable;
  ranks_.erase(it);
  if (was_unkillable) SayFitAgain();
  OnRanksChanged();
}

void Agent::SendRankEvent(v1::RankEvent event) {
  v1::WorkerMessage message;
  *message.mutable_rank_event() = std::move(event);
  session_->SendEvent(std::move(message));
}

// ---- stop ----

void Agent::BeginStop(absl::Duration grace) {
  if (std::exchange(stopping_, true)) return;
  const absl::Duration reserve = std::min(kTermReserve, grace / 2);
  GiveNotice("spot notice", grace - reserve);
  awaits_controller_ = !ranks_.empty();
  stop_until_ = agenda_.now() + grace;
  execution_.After(grace - reserve, [this, reserve] {
    StopAll({v1::StopRanks::TERM, reserve, "the agent's stop grace is over"});
  });
  if (!session_->up()) AskToSave();
  OnRanksChanged();
}

void Agent::AskToSave() {
  const absl::Duration left = std::max(absl::ZeroDuration(), stop_until_ - agenda_.now());
  StopAll({v1::StopRanks::SAVE, left, "the agent stops without a controller"});
}

void Agent::OnRanksChanged() {
  if (!stopping_ || !ranks_.empty() || std::exchange(flushing_, true)) return;
  EndWhenFlushed(kFlushPatience);
}

void Agent::EndWhenFlushed(absl::Duration patience) {
  const bool is_heard = session_->up() || awaits_controller_;
  const bool delivered = bulk_ == nullptr || !bulk_->HasUnacknowledged();
  const bool flushed = session_->EventsAcknowledged() && delivered;
  if (flushed || !is_heard || patience <= absl::ZeroDuration()) {
    return agenda_.After(absl::ZeroDuration(), host_.quit), void();
  }
  execution_.After(kFlushPoll, [this, patience] { EndWhenFlushed(patience - kFlushPoll); });
}

}  // namespace muster::sim
