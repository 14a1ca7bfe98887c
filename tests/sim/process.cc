#include "tests/sim/process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "common/ckpt/checkpoint_folder.h"
#include "nlohmann/json.hpp"

namespace muster::sim {
namespace {

using worker::CheckpointLine;
using worker::StoreLine;

constexpr int64_t kRendezvousTimeoutMs = 120'000;
// Before numbers that the agent could not take are said again.
constexpr absl::Duration kAgainAfter = absl::Seconds(1);

// What a job's own code can fail of.
constexpr const char* kOwnFailures[] = {
    "APPLICATION", "APPLICATION",       "NON_FINITE",     "OUT_OF_MEMORY",
    "DATA_ERROR",  "CHECKPOINT_FAILED", "NO_SUCH_CLASS_", ""};

}  // namespace

std::string EncodePlan(const JobPlan& plan) {
  nlohmann::json spec = {
      {"restart", {{"controller_lost_timeout", "20m0s"}}},
      {"plan",
       {{"steps", plan.steps},
        {"save_every", plan.save_every},
        {"step_ms", plan.step_ms},
        {"fail", plan.fail},
        {"forgets", plan.forgets},
        {"kind", static_cast<int>(plan.kind)}}},
  };
  if (plan.kind == JobPlan::Kind::kTrainer) {
    spec["train"] = {{"threads_per_rank", 1}};
  } else {
    spec["command"] = {{"argv", {"train"}}, {"workdir", "/"}};
  }
  return spec.dump();
}

JobPlan DecodePlan(const std::string& spec_json) {
  const nlohmann::json plan = nlohmann::json::parse(spec_json).at("plan");
  return {.steps = plan.at("steps"),
          .save_every = plan.at("save_every"),
          .step_ms = plan.at("step_ms"),
          .fail = plan.at("fail"),
          .forgets = plan.at("forgets"),
          .kind = static_cast<JobPlan::Kind>(plan.at("kind").get<int>())};
}

Process::Process(RankWorld& world, Dice dice, Setup setup)
    : world_(world),
      dice_(dice),
      setup_(std::move(setup)),
      gang_([&] {
        std::shared_ptr<Gang>& gang = world.gangs[{setup_.key.job_id, setup_.key.attempt}];
        if (gang == nullptr) gang = std::make_shared<Gang>();
        gang->world_size = setup_.world_size;
        return gang;
      }()),
      execution_(world.agenda),
      in_cgroup_(world.daemons > 0 && dice_.Chance(0.5)),
      leaves_child_(setup_.plan.kind != JobPlan::Kind::kTrainer && world.daemons > 0 &&
                    dice_.Chance(world.daemons)),
      deaf_(dice_.Chance(0.1)) {}

Process::~Process() {
  if (alive_) gang_->members.erase(setup_.key.rank);
}

void Process::Say(worker::RankLine line) {
  if (to_agent) to_agent(std::move(line));
}

void Process::Progress(const char* phase) {
  Say(worker::ProgressLine{
      .phase = phase, .step = step_, .total_steps = setup_.plan.steps, .epoch = 0.1 * step_});
}

void Process::Start() {
  alive_ = true;
  gang_->members[setup_.key.rank] = this;
  execution_.After(dice_.Between(absl::Milliseconds(100), absl::Seconds(3)), [this] {
    Say(worker::HelloLine{
        .protocol_version = kProtocolVersion, .rank = setup_.key.rank, .version = "sim"});
    if (!world_.healed && dice_.Chance(setup_.plan.fail)) return Exit({.code = 2});
    Progress("rendezvous");
    Store(StoreLine::Op::kSet, {absl::StrCat("rank/", setup_.key.rank)});
  });
}

// ---- rendezvous ----

void Process::Store(StoreLine::Op op, std::vector<std::string> keys) {
  Say(StoreLine{.id = ++store_id_,
                .op = op,
                .keys = std::move(keys),
                .value = "here",
                .timeout_ms = kRendezvousTimeoutMs});
}

void Process::OnStoreReply(const worker::StoreReplyLine& reply) {
  if (leaving_ || reply.id != store_id_) return;
  if (!reply.error.empty()) return Fail("START_FAILED", absl::StrCat("rendezvous: ", reply.error));
  if (store_id_ == 1) {
    std::vector<std::string> all;
    for (uint32_t i = 0; i < setup_.world_size; ++i) all.push_back(absl::StrCat("rank/", i));
    return Store(StoreLine::Op::kWait, std::move(all));
  }
  Progress("load");
  if (setup_.plan.kind == JobPlan::Kind::kSilent) return RunSilently();
  execution_.After(dice_.Between(absl::Milliseconds(200), absl::Seconds(4)), [this] { Load(); });
}

// ---- training ----

Storage::Misreading Process::MisreadingOfGang() {
  if (!gang_->misreading.has_value()) {
    const auto first = gang_->members.find(0);
    const Process& reader = first == gang_->members.end() ? *this : *first->second;
    gang_->misreading = world_.storage.MisreadingOf(reader.setup_.machine);
  }
  return *gang_->misreading;
}

void Process::Load() {
  if (leaving_) return;
  if (!SeesRoot()) return Fail("STORAGE_UNAVAILABLE", "its checkpoint root is not seen");
  bool found = setup_.resume.empty() || setup_.plan.forgets;
  bool all_broken = true;
  bool misread = false;
  const Storage::Misreading misreading = MisreadingOfGang();
  for (const v1::StartRanks::Resume& candidate : setup_.resume) {
    const absl::Status whole =
        world_.storage.Read(candidate.path(), candidate.manifest_sha256(), misreading);
    if (setup_.plan.forgets) break;
    if (whole.ok()) {
      step_ = candidate.step();
      found = true;
      break;
    }
    misread |= world_.storage.Verify(candidate.path(), candidate.manifest_sha256()).ok();
    all_broken = all_broken && absl::IsDataLoss(whole);
    if (setup_.key.rank != 0) continue;
    Say(CheckpointLine{.kind = absl::IsDataLoss(whole) ? CheckpointLine::Kind::kCorrupt
                                                       : CheckpointLine::Kind::kUnread,
                       .step = candidate.step(),
                       .path = candidate.path(),
                       .message = std::string(whole.message())});
  }
  if (!found) {
    return Fail(all_broken ? "CORRUPTION" : "CHECKPOINT_FAILED", "no checkpoint can be used");
  }
  saved_step_ = step_;
  // Who misreads goes on from what it can read.
  if (setup_.key.rank == 0 && !setup_.plan.forgets && !misread) {
    world_.on_resume(setup_.key.job_id, setup_.key.attempt, step_);
  }
  training_ = true;
  Progress("train");
  BeginStep();
}

// Says nothing, saves nothing and knows of no other rank; its exit code is its word.
void Process::RunSilently() {
  if (step_ >= setup_.plan.steps) {
    world_.on_success(setup_.key.job_id, setup_.key.attempt, setup_.key.rank);
    return Exit({});
  }
  execution_.After(absl::Milliseconds(setup_.plan.step_ms), [this] {
    if (leaving_) return;
    if (!world_.healed && dice_.Chance(setup_.plan.fail)) return Exit({.code = 1});
    ++step_;
    RunSilently();
  });
}

void Process::BeginStep() {
  if (leaving_ || hung_) return;
  if (step_ >= setup_.plan.steps) return Arrive();
  const absl::Duration time = absl::Milliseconds(setup_.plan.step_ms);
  execution_.After(dice_.Between(time * 0.8, time * 1.2), [this] {
    if (!world_.healed && dice_.Chance(setup_.plan.fail)) MaybeFail();
    if (leaving_ || !alive_ || hung_) return;
    ++step_;
    Arrive();
  });
}

void Process::Arrive() {
  gang_->arrived[setup_.key.rank] = step_;
  if (gang_->arrived.size() < gang_->world_size || gang_->members.size() < gang_->world_size) {
    return;
  }
  gang_->arrived.clear();
  gang_->stop_agreed = gang_->save_requested;
  const std::map<uint32_t, Process*> members = gang_->members;
  for (const auto& [rank, member] : members) {
    member->execution_.After(absl::Milliseconds(1), [member = member] { member->OnBarrier(); });
  }
}

void Process::OnBarrier() {
  if (leaving_) return;
  Progress("train");
  Report();
  const bool done = step_ >= setup_.plan.steps;
  const bool stop = gang_->stop_agreed;
  if (setup_.key.rank != 0) {
    if (done) return Succeed();
    if (stop) return LeaveAsAsked();
    return BeginStep();
  }
  const bool due = step_ % setup_.plan.save_every == 0 || done || stop;
  if (due && step_ > saved_step_ && saving_step_ == 0) Save(step_);
  if (done || stop) {
    if (saving_step_ == 0 && saved_step_ >= step_) return done ? Succeed() : LeaveAsAsked();
    return;  // OnCommitted goes on
  }
  BeginStep();
}

// A trainer keeps its numbers until its agent has them: worker/trainer/rank/link_client.h.
void Process::Report() {
  worker::MetricsLine line{.seq = ++metrics_seq_, .step = step_};
  line.values = {{"loss", 1.0 / static_cast<double>(step_)}, {"accuracy", 0.5}};
  if (setup_.plan.kind == JobPlan::Kind::kTrainer) kept_.push_back(line);
  Say(std::move(line));
}

void Process::OnAck(const worker::AckLine& ack) {
  while (!kept_.empty() && kept_.front().seq <= ack.seq) kept_.pop_front();
  if (!ack.again || std::exchange(again_is_due_, true)) return;
  execution_.After(kAgainAfter, [this] {
    again_is_due_ = false;
    const std::deque<worker::MetricsLine> lines = kept_;  // answers come meanwhile
    for (const worker::MetricsLine& line : lines) Say(line);
  });
}

// ---- checkpoints ----

std::string Process::FolderPath(int64_t step) const {
  return absl::StrCat(setup_.checkpoint_root, "/",
                      FolderName({.step = step,
                                  .attempt = setup_.key.attempt,
                                  .generation = setup_.key.generation,
                                  .nonce = ""}));
}

void Process::Save(int64_t step) {
  const bool again = saving_step_ == step;
  saving_step_ = step;
  published_ = false;
  if (!again) Say(CheckpointLine{.kind = CheckpointLine::Kind::kBegin, .step = step});
  execution_.After(dice_.Between(absl::Milliseconds(300), absl::Seconds(5)), [this, step] {
    if (leaving_) return;
    // It waits for the root, and begins anew.
    if (!SeesRoot()) return Save(step);
    if (!world_.healed && dice_.Chance(setup_.plan.fail / 4)) {
      Say(CheckpointLine{
          .kind = CheckpointLine::Kind::kFailed, .step = step, .message = "no space left"});
      saving_step_ = 0;
      const bool last = step_ >= setup_.plan.steps || gang_->stop_agreed;
      if (last) Fail("CHECKPOINT_FAILED", "the last save failed");
      return;
    }
    Say(CheckpointLine{.kind = CheckpointLine::Kind::kReady, .step = step});
  });
}

void Process::OnPublish() {
  if (leaving_ || saving_step_ == 0 || std::exchange(published_, true)) return;
  Publish(saving_step_);
}

// What was allowed may take its time: a disk is slow, the machine stands still, the agent dies or
// loses its lease meanwhile. One that hangs for ever may have asked its kernel before.
void Process::Publish(int64_t step) {
  const bool slow = !world_.healed && dice_.Chance(0.1);
  const absl::Duration wait = slow ? dice_.Between(absl::Milliseconds(80), absl::Seconds(40))
                                   : dice_.Between(absl::Milliseconds(1), absl::Milliseconds(80));
  execution_.After(wait, [this, step] {
    if (!alive_) return;
    if (!SeesRoot()) return Save(step);
    const std::string path = FolderPath(step);
    const std::string sha =
        absl::StrCat("sha-", setup_.key.job_id, "-", step, "-", setup_.key.attempt);
    world_.trace.Note("publish ", path);
    const Storage::Folder folder{.job_id = setup_.key.job_id,
                                 .attempt = setup_.key.attempt,
                                 .step = step,
                                 .manifest_sha256 = sha};
    world_.on_rename(path, folder);
    world_.storage.Publish(path, folder);
    Say(CheckpointLine{.kind = CheckpointLine::Kind::kCommit,
                       .step = step,
                       .path = path,
                       .manifest_sha256 = sha,
                       .bytes = 1000,
                       .best = dice_.Chance(0.2)});
  });
}

void Process::OnCommitted(const worker::CommittedLine& line) {
  if (leaving_ || line.step != saving_step_) return;
  saving_step_ = 0;
  if (!line.error.empty()) return Fail("CHECKPOINT_FAILED", line.error);
  saved_step_ = line.step;
  const bool done = step_ >= setup_.plan.steps;
  if (!done && !gang_->stop_agreed) return;
  if (gang_->arrived.count(0) != 0) return;  // a step is under way
  if (saved_step_ < step_) return Save(step_);
  return done ? Succeed() : LeaveAsAsked();
}

// ---- its end ----

void Process::MaybeFail() {
  switch (dice_.Below(6)) {
    case 0:
      hung_ = true;
      return;
    case 1:
      return Exit({.code = 0, .signal = 11});
    case 2:
      return Exit({.code = 1, .signal = 0});
    default: {
      const char* kind = kOwnFailures[dice_.Below(std::size(kOwnFailures))];
      return Fail(kind, absl::StrCat("its own failure at step ", step_));
    }
  }
}

void Process::OnMemberLost() {
  if (leaving_ || hung_ || !training_) return;
  execution_.After(dice_.Between(absl::Milliseconds(200), absl::Seconds(6)), [this] {
    const bool waits = step_ < setup_.plan.steps && !gang_->stop_agreed;
    if (!leaving_ && waits && gang_->members.size() < gang_->world_size) {
      Fail("PEER_LOST", "a peer closed its connection");
    }
  });
}

void Process::Succeed() {
  if (std::exchange(leaving_, true)) return;
  world_.on_success(setup_.key.job_id, setup_.key.attempt, setup_.key.rank);
  Progress("done");
  Say(worker::ResultLine{.succeeded = true, .results = {{"final_step", step_}}});
  execution_.After(absl::Milliseconds(50), [this] { Exit({}); });
}

void Process::LeaveAsAsked() {
  if (std::exchange(leaving_, true)) return;
  Say(worker::ResultLine{.stopped = true});
  execution_.After(absl::Milliseconds(50), [this] { Exit({}); });
}

void Process::Fail(const std::string& failure_class, const std::string& message) {
  if (std::exchange(leaving_, true)) return;
  Say(worker::ResultLine{.failure_class = failure_class, .message = message});
  execution_.After(absl::Milliseconds(50), [this] { Exit({.code = 1}); });
}

void Process::AgreeToSave() {
  if (leaving_ || hung_) return;
  if (!training_) return LeaveAsAsked();
  gang_->save_requested = true;
}

void Process::OnLine(const worker::AgentLine& line) {
  execution_.Run([this, line] {
    if (!alive_) return;
    if (const auto* reply = std::get_if<worker::StoreReplyLine>(&line)) OnStoreReply(*reply);
    if (const auto* ack = std::get_if<worker::AckLine>(&line)) OnAck(*ack);
    if (std::holds_alternative<worker::PublishLine>(line)) OnPublish();
    if (const auto* committed = std::get_if<worker::CommittedLine>(&line)) OnCommitted(*committed);
    const auto* stop = std::get_if<worker::StopLine>(&line);
    const bool asked = stop != nullptr && stop->save;
    if (asked && setup_.plan.kind == JobPlan::Kind::kTrainer) AgreeToSave();
  });
}

void Process::Terminate() {
  execution_.Run([this] {
    if (ended_ || deaf_ || hung_) return;
    // To a program of its own the signal says both: save, and leave.
    if (setup_.plan.kind == JobPlan::Kind::kCommand) return AgreeToSave();
    execution_.After(dice_.Between(absl::Milliseconds(50), absl::Seconds(3)), [this] {
      if (setup_.plan.kind == JobPlan::Kind::kTrainer) return LeaveAsAsked();
      dice_.Chance(0.5) ? Exit({.code = 0, .signal = 15}) : Exit({});
    });
  });
}

void Process::Kill(bool with_child) {
  if (with_child) leaves_child_ = false;
  if (!alive_ || std::exchange(killed_, true)) return;
  if (!world_.healed && dice_.Chance(world_.undead)) {
    // It never runs again; what it told the kernel to do may still be done.
    world_.trace.Note("job ", setup_.key.job_id, ".", setup_.key.attempt, " rank ", setup_.key.rank,
                      " on ", setup_.machine, " cannot be killed");
    ++world_.undead_so_far;
    undead_ = true;
    leaving_ = true;
    if (dice_.Chance(0.5)) return;  // for ever
    const absl::Duration hangs = dice_.Between(absl::Minutes(1), absl::Minutes(20));
    execution_.After(hangs, [this] { Die(); });
    return;
  }
  // Mostly at once; a process in the middle of I/O dies when that is over.
  const absl::Duration wait = dice_.Chance(0.05)
                                  ? dice_.Between(absl::Seconds(1), absl::Seconds(20))
                                  : absl::Milliseconds(dice_.Between(1, 40));
  execution_.After(wait, [this] { Die(); });
}

void Process::OnAgentDead() {
  if (ended_ || dice_.Chance(world_.orphans)) return;
  execution_.After(dice_.Between(absl::Milliseconds(1), absl::Milliseconds(1500)),
                   [this] { Kill(/*with_child=*/false); });
}

void Process::LosePower() {
  leaves_child_ = false;
  Die();
}

void Process::Die() { Exit({.code = 0, .signal = 9}); }

// Of itself, and later of the child that it left.
void Process::Exit(ProcessExit exit) {
  if (!alive_) return;
  leaving_ = true;
  if (!std::exchange(ended_, true)) {
    exit_ = exit;
    LeaveGang();
    if (leaves_child_) return LeaveChild();
  }
  alive_ = false;
  if (on_exit) on_exit(exit_);
}

// Nothing of the rank itself ever runs again, and nobody has killed the child yet.
void Process::LeaveChild() {
  world_.trace.Note("job ", setup_.key.job_id, ".", setup_.key.attempt, " rank ", setup_.key.rank,
                    " on ", setup_.machine, " leaves a child");
  ++world_.children_left;
  execution_.Kill();
  killed_ = false;
  undead_ = false;
  if (on_leader_exit) on_leader_exit();
}

void Process::LeaveGang() {
  gang_->members.erase(setup_.key.rank);
  const std::map<uint32_t, Process*> members = gang_->members;
  for (const auto& [rank, member] : members) {
    member->execution_.Run([member = member] { member->OnMemberLost(); });
  }
}

}  // namespace muster::sim
