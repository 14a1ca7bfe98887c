// The agent's side of metrics: the real spool and the real order of a rank's numbers
// (metrics_intake.h) over the machine's simulated disk, and a sender that holds the conversation of
// worker/agent/connection/bulk_sender.cc over a simulated wire.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "tests/sim/dice.h"
#include "tests/sim/execution.h"
#include "tests/sim/metrics_model.h"
#include "worker/agent/base/backoff.h"
#include "worker/agent/base/rank_key.h"
#include "worker/agent/telemetry/metrics_intake.h"
#include "worker/agent/telemetry/spool.h"
#include "worker/link/link_messages.h"

namespace muster::sim {

// A Bulk stream from the agent's end.
class BulkCall {
 public:
  virtual ~BulkCall() = default;  // hangs up
  virtual void Send(v1::BulkBatch batch) = 0;
};
struct BulkHandlers {
  std::function<void(const v1::BulkAck&)> on_ack;
  std::function<void()> on_end;  // at most once
};
using BulkConnector = std::function<std::shared_ptr<BulkCall>(BulkHandlers)>;

// How far one rank's numbers are in the spool.
struct RankNumbers {
  worker::RankKey key;
  bool is_command = false;
  worker::MetricsIntake intake{0};
  uint64_t command_seq = 0;  // a command's lines are counted by its agent
};

class BulkAgent {
 public:
  struct Host {
    BulkConnector connect;
    v1::BulkHello hello;
    MetricsModel* model = nullptr;
    SpooledRecords* spooled = nullptr;  // of the machine's disk
  };
  BulkAgent(Execution& execution, Dice dice, std::unique_ptr<worker::Spool> spool, Host host);

  using Tell = std::function<void(const worker::AckLine&)>;  // the rank
  void OnMetrics(RankNumbers& rank, worker::MetricsLine line, const Tell& tell);
  void OnRankGone(const RankNumbers& rank);
  void SessionUp();
  void SessionDown();
  bool HasUnacknowledged() const { return spool_->HasUnacknowledged(); }

 private:
  void Spool(RankNumbers& rank, const worker::MetricsLine& line, const Tell& tell);
  void Open();
  void Close();
  void Flush();
  void FlushSoon();
  void OnAck(const v1::BulkAck& ack);
  void OnEnd();
  void ForgetDelivered();

  Execution& execution_;
  Dice dice_;
  const std::unique_ptr<worker::Spool> spool_;
  const Host host_;
  const absl::Duration gather_;  // before records leave
  worker::Backoff backoff_;
  std::shared_ptr<BulkCall> call_;
  std::deque<std::pair<uint64_t, worker::SpoolPosition>> under_way_;
  worker::SpoolPosition sent_;
  uint64_t next_batch_ = 1;
  bool flush_is_due_ = false;
  uint64_t reopen_timer_ = 0;
  bool up_ = false;
  // Ranks that have ended, and where their last record ends.
  std::map<worker::RankKey, worker::SpoolPosition> finished_;
};

}  // namespace muster::sim
