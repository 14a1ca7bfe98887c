#include "tests/sim/bulk_agent.h"

#include <string>
#include <vector>

namespace muster::sim {
namespace {

constexpr size_t kMaxBatchRecords = 20;  // fewer than the real one's, so that there are several
constexpr size_t kMaxBatchBytes = 1u << 20;
constexpr size_t kMaxUnderWay = 4;
constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(5);

}  // namespace

BulkAgent::BulkAgent(Execution& execution, Dice dice, std::unique_ptr<worker::Spool> spool,
                     Host host)
    : execution_(execution),
      dice_(dice),
      spool_(std::move(spool)),
      host_(std::move(host)),
      gather_(dice_.Between(absl::Seconds(2), absl::Seconds(10))),
      backoff_(kFirstPause, kLongestPause, dice_.Next()) {
  // What an earlier agent's ranks left is complete: they are dead.
  for (const worker::RankKey& key : spool_->MarkedRanks()) finished_[key] = spool_->end();
}

// ---- from ranks: Rank::On(MetricsLine&) and SpoolMetrics of worker/agent/gang/rank.cc ----

void BulkAgent::OnMetrics(RankNumbers& rank, worker::MetricsLine line, const Tell& tell) {
  if (rank.is_command) {
    line.seq = ++rank.command_seq;
    return Spool(rank, line, tell);
  }
  switch (rank.intake.TurnOf(line)) {
    case worker::MetricsIntake::Turn::kNow:
      return Spool(rank, line, tell);
    case worker::MetricsIntake::Turn::kTaken:
      return tell({.seq = rank.intake.taken()});
    case worker::MetricsIntake::Turn::kLater:
      return tell({.seq = rank.intake.taken(), .again = true});
  }
}

void BulkAgent::Spool(RankNumbers& rank, const worker::MetricsLine& line, const Tell& tell) {
  v1::MetricRecord record;
  worker::SetKey(rank.key, record);
  record.set_seq(line.seq);
  std::vector<std::string> names;
  for (const auto& [name, value] : line.values) {
    v1::MetricPoint& point = *record.add_points();
    point.set_name(name);
    point.set_step(line.step);
    // By this the model knows the record again.
    point.set_time_ms(static_cast<int64_t>(line.seq));
    point.set_value(value);
    names.push_back(name);
  }
  const uint64_t dropped = spool_->dropped_records();
  const absl::Status spooled = spool_->Append(record);
  if (spool_->dropped_records() != dropped) {
    // What is kept begins there.
    const absl::StatusOr<worker::SpoolBatch> nothing = spool_->Read({}, 0, 0);
    if (nothing.ok()) host_.spooled->OnDropped(nothing->end, *host_.model);
  }
  if (!spooled.ok()) {
    if (rank.is_command) return spool_->RecordLoss(record);
    return tell({.seq = rank.intake.taken(), .again = true});
  }
  const std::optional<worker::LostMetrics> lost = rank.intake.LostBefore(line);
  if (lost.has_value() && !rank.is_command) {
    spool_->RecordLoss(rank.key, lost->first, lost->last);
  }
  rank.intake.Took(line);
  const RecordId id(rank.key, line.seq);
  host_.model->OnTaken(id, line.step, std::move(names));
  host_.spooled->Add(spool_->end(), id);
  tell({.seq = line.seq});
  FlushSoon();
}

void BulkAgent::OnRankGone(const RankNumbers& rank) {
  const std::optional<worker::LostMetrics> lost = rank.intake.LostAtEnd();
  if (lost.has_value() && !rank.is_command) {
    spool_->RecordLoss(rank.key, lost->first, lost->last);
  }
  finished_[rank.key] = spool_->end();
}

// As FinishedRankFolders does with a rank's folder.
void BulkAgent::ForgetDelivered() {
  std::erase_if(finished_, [this](const auto& rank) {
    const bool delivered = rank.second <= spool_->acknowledged() || !spool_->HasUnacknowledged();
    if (delivered) spool_->Forget(rank.first);
    return delivered;
  });
}

// ---- to the controller: worker/agent/connection/bulk_sender.cc ----

void BulkAgent::SessionUp() {
  if (up_) SessionDown();
  up_ = true;
  backoff_.Reset();
  Open();
}

void BulkAgent::SessionDown() {
  up_ = false;
  Close();
}

void BulkAgent::Close() {
  execution_.Cancel(reopen_timer_);
  call_.reset();
  under_way_.clear();
}

void BulkAgent::Open() {
  call_ = host_.connect(
      {.on_ack = [this](const v1::BulkAck& ack) { OnAck(ack); }, .on_end = [this] { OnEnd(); }});
  next_batch_ = 1;
  sent_ = spool_->acknowledged();
  Flush();
}

void BulkAgent::OnEnd() {
  Close();
  if (up_) reopen_timer_ = execution_.After(backoff_.Next(), [this] { Open(); });
}

void BulkAgent::FlushSoon() {
  if (call_ == nullptr || std::exchange(flush_is_due_, true)) return;
  execution_.After(gather_, [this] {
    flush_is_due_ = false;
    Flush();
  });
}

void BulkAgent::Flush() {
  while (call_ != nullptr && under_way_.size() < kMaxUnderWay) {
    absl::StatusOr<worker::SpoolBatch> batch =
        spool_->Read(sent_, kMaxBatchRecords, kMaxBatchBytes);
    if (!batch.ok()) return;
    sent_ = batch->end;
    if (batch->count == 0) return;
    if (next_batch_ == 1) *batch->records.mutable_hello() = host_.hello;
    batch->records.set_batch_id(next_batch_);
    under_way_.emplace_back(next_batch_++, batch->end);
    call_->Send(std::move(batch->records));
  }
}

void BulkAgent::OnAck(const v1::BulkAck& ack) {
  backoff_.Reset();
  while (!under_way_.empty() && under_way_.front().first <= ack.batch_id()) {
    spool_->Acknowledge(under_way_.front().second);
    host_.spooled->OnAcknowledged(under_way_.front().second, *host_.model);
    under_way_.pop_front();
  }
  ForgetDelivered();
  Flush();
}

}  // namespace muster::sim
