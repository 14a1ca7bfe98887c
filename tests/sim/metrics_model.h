// What ranks were told of their numbers: each record that an agent has taken is in metrics.db in
// the end, exactly once, unless the design lets it go: with the disk of a machine that lost its
// power, or beyond the bound of a spool. A model of its own, fed with acknowledgements only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/disk.h"
#include "tests/sim/trace.h"
#include "worker/agent/base/rank_key.h"
#include "worker/agent/telemetry/spool_format.h"

namespace muster::sim {

// A rank's report by its number, which also stands in its points' time.
using RecordId = std::pair<worker::RankKey, uint64_t>;

class MetricsModel {
 public:
  static constexpr char kDatabase[] = "/sim/metrics.db";

  explicit MetricsModel(Trace& trace) : trace_(trace) {}

  // A rank was told that its agent has the record, with a point of each name.
  void OnTaken(const RecordId& id, int64_t step, std::vector<std::string> names);
  // An agent was told that the controller has it.
  void OnStored(const RecordId& id);
  // It need not be stored any more, unless it was already; never twice all the same.
  void OnMayBeLost(const RecordId& id);

  // Once everything has healed and every agent with a session has delivered its spool.
  void Check(Disk& disk);

  uint64_t records() const { return records_.size(); }
  uint64_t lost() const { return lost_; }

 private:
  enum class State { kTaken, kStored, kMayBeLost };
  struct Record {
    int64_t step = 0;
    std::vector<std::string> names;
    State state = State::kTaken;
  };
  struct Row {
    RecordId id;
    std::string name;
    int64_t step = 0;
    auto operator<=>(const Row&) const = default;
  };
  // Of all that is stored on the mounted disk: how often.
  std::map<Row, uint64_t> ReadRows();

  Trace& trace_;
  std::map<RecordId, Record> records_;
  uint64_t lost_ = 0;  // records of which some point is not there, and need not be
};

// What stands in the spool of one disk and was not acknowledged by the controller, in its order.
class SpooledRecords {
 public:
  void Add(worker::SpoolPosition end, const RecordId& id) { records_.emplace_back(end, id); }
  // The controller has all before `position`.
  void OnAcknowledged(worker::SpoolPosition position, MetricsModel& model);
  // The bound took all before `position`.
  void OnDropped(worker::SpoolPosition position, MetricsModel& model);
  // All of it may be gone, or will never be sent.
  void OnLost(MetricsModel& model);
  size_t size() const { return records_.size(); }

 private:
  std::deque<std::pair<worker::SpoolPosition, RecordId>> records_;
};

}  // namespace muster::sim
