// How the agent stops, and how it leaves a machine that goes away: the ranks save, their end is
// told, and nothing new comes.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "worker/agent/agent.h"

namespace muster::worker {
namespace {

// Kept back from the stop grace for ranks that did not save in time: SIGTERM, then SIGKILL.
constexpr absl::Duration kTermReserve = absl::Seconds(5);
// After the last rank: for the controller to acknowledge what is left to say, and to come back for
// that.
constexpr absl::Duration kFlushPatience = absl::Seconds(3);
constexpr absl::Duration kFlushPoll = absl::Milliseconds(20);

absl::Duration ReserveOf(absl::Duration time) { return std::min(kTermReserve, time / 2); }

}  // namespace

void Agent::BeginStop(const std::string& reason) {
  if (std::exchange(stopping_, true)) {
    awaits_controller_ = false;
    supervisor_->StopAll({v1::StopRanks::KILL, absl::ZeroDuration(), "told to stop twice"});
    return;
  }
  Log(LogLevel::kInfo, "agent_stopping", {{"reason", reason}, {"connected", session_->up()}});
  if (data_ != nullptr) data_->Clear();
  supervisor_->Drain();
  awaits_controller_ = !supervisor_->empty();
  absl::Duration time = config_.stop_grace;
  if (machine_leaves_.has_value()) {
    time = std::clamp(leave_until_ - clock_.SinceBoot(), absl::ZeroDuration(), time);
  }
  GiveNotice(reason, time);
  SetLeaveBy(time, "the agent's stop grace is over");
  // The controller tells every rank of the gangs here to save; those elsewhere must leave too.
  if (!session_->up()) AskToSave();
  OnRanksChanged();
}

void Agent::GiveNotice(const std::string& reason, absl::Duration time) {
  // Also when nobody listens now: who comes back within the grace should place nothing here.
  const absl::Duration grace = time - ReserveOf(time);
  v1::WorkerMessage message;
  message.mutable_notice()->set_message(reason);
  message.mutable_notice()->set_grace_ms(std::max<int64_t>(1, absl::ToInt64Milliseconds(grace)));
  session_->SendEvent(std::move(message));
}

void Agent::SetLeaveBy(absl::Duration time, const std::string& why) {
  const absl::Duration reserve = ReserveOf(time);
  leave_until_ = clock_.SinceBoot() + time;
  loop_->Cancel(leave_timer_);
  leave_timer_ = loop_->After(time - reserve, [this, reserve, why] {
    supervisor_->StopAll({v1::StopRanks::TERM, reserve, why});
  });
}

// Without a controller nobody else tells them. Who was told before keeps his time: the controller
// may come back within it, and what is saved may be published then. Ranks of one gang agree among
// themselves to save and leave, also with those elsewhere. The reserve is kept back by SetLeaveBy.
void Agent::AskToSave() {
  const absl::Duration left = std::max(absl::ZeroDuration(), leave_until_ - clock_.SinceBoot());
  const char* why = stopping_ ? "the agent stops without a controller"
                              : "the machine goes away, and there is no controller";
  supervisor_->StopAll({v1::StopRanks::SAVE, left, why});
}

void Agent::OnNoticeWord(const NoticeWord& word) {
  const absl::Duration left = std::max(absl::ZeroDuration(), word.deadline - clock_.SinceBoot());
  switch (word.change) {
    case NoticeChange::kNone:
      break;
    case NoticeChange::kGiven:
      machine_leaves_ = word.notice;
      if (stopping_) {
        SetLeaveBy(std::min(left, leave_until_ - clock_.SinceBoot()), "the machine goes away");
        break;
      }
      supervisor_->Drain();
      GiveNotice(word.notice.message, left);
      SetLeaveBy(left, "the machine goes away");
      if (session_started_ && !session_->up()) AskToSave();
      break;
    case NoticeChange::kSooner:
      machine_leaves_ = word.notice;
      SetLeaveBy(std::min(left, leave_until_ - clock_.SinceBoot()), "the machine goes away sooner");
      break;
    case NoticeChange::kWithdrawn:
      machine_leaves_.reset();
      if (stopping_) break;
      loop_->Cancel(leave_timer_);
      supervisor_->TakeWork();
      SayFitAgain();
      break;
  }
  StartSession();
}

// When the controller has all of what ran here, nothing is gained by staying.
void Agent::ApproveOnceEmpty() {
  if (!machine_leaves_.has_value() || !machine_leaves_->awaits_approval) return;
  if (!supervisor_->empty() || !session_->up() || !session_->EventsAcknowledged() ||
      spool_->HasUnacknowledged()) {
    return;
  }
  machine_leaves_->awaits_approval = false;
  notices_->Approve(machine_leaves_->id);
}

void Agent::OnRanksChanged() {
  if (!stopping_ || !supervisor_->only_unkillable_left() || std::exchange(flushing_, true)) return;
  EndWhenFlushed(kFlushPatience);
}

void Agent::Unfit(const std::string& why) {
  unfit_ = true;
  v1::WorkerMessage message;
  message.mutable_notice()->set_message(why);
  session_->SendEvent(std::move(message));
}

void Agent::FitAgain() {
  unfit_ = false;
  if (!stopping_) SayFitAgain();
}

void Agent::SayFitAgain() {
  if (unfit_ || machine_leaves_.has_value()) return;
  v1::WorkerMessage message;
  message.mutable_notice()->set_message("what was in the way is over");
  message.mutable_notice()->set_withdrawn(true);
  session_->SendEvent(std::move(message));
}

void Agent::EndWhenFlushed(absl::Duration patience) {
  const bool flushed = session_->EventsAcknowledged() && !spool_->HasUnacknowledged();
  const bool is_heard = session_->up() || (awaits_controller_ && refused_.ok());
  if (flushed || !is_heard || patience <= absl::ZeroDuration()) return loop_->Quit();
  loop_->After(kFlushPoll, [this, patience] { EndWhenFlushed(patience - kFlushPoll); });
}

}  // namespace muster::worker
