#include "tests/sim/metrics_model.h"

#include "absl/strings/str_cat.h"
#include "controller/store/metrics/metrics_schema.h"
#include "controller/store/metrics/points/point_codec.h"
#include "controller/store/sqlite.h"

namespace muster::sim {
namespace {

namespace mc = ::muster::controller;

std::string NameOf(const RecordId& id, const std::string& name, int64_t step) {
  const worker::RankKey& key = id.first;
  return absl::StrCat("job ", key.job_id, " attempt ", key.attempt, " rank ", key.rank, ": ", name,
                      " of step ", step);
}

}  // namespace

void MetricsModel::OnTaken(const RecordId& id, int64_t step, std::vector<std::string> names) {
  const bool is_new = records_.emplace(id, Record{.step = step, .names = std::move(names)}).second;
  if (!is_new) trace_.Fail(NameOf(id, "a report", step), " was taken twice");
}

// What a torn or shortened copy of the spool made a gap of is acknowledged too when it comes late:
// once it may be lost that stays so.
void MetricsModel::OnStored(const RecordId& id) {
  State& state = records_.at(id).state;
  if (state == State::kTaken) state = State::kStored;
}

void MetricsModel::OnMayBeLost(const RecordId& id) {
  State& state = records_.at(id).state;
  if (state == State::kTaken) state = State::kMayBeLost;
}

std::map<MetricsModel::Row, uint64_t> MetricsModel::ReadRows() {
  std::map<Row, uint64_t> rows;
  const auto fail = [&](const absl::Status& status) {
    trace_.Fail("metrics.db cannot be read: ", status.ToString());
  };
  auto opened =
      mc::SqliteDatabase::Open({.path = kDatabase, .vfs = Disk::kVfs}, mc::kMetricsMigrations);
  if (!opened.ok()) return fail(opened.status()), rows;
  mc::SqliteDatabase& db = **opened;
  if (const absl::Status good = db.CheckIntegrity(); !good.ok()) return fail(good), rows;
  std::map<uint64_t, std::string> names;
  mc::SqliteStatement name = db.Prepare("SELECT id, name FROM metric_names");
  absl::StatusOr<bool> more = name.Step();
  for (; more.ok() && *more; more = name.Step()) names[name.Int(0)] = name.Text(1);
  if (!more.ok()) return fail(more.status()), rows;
  mc::SqliteStatement row = db.Prepare("SELECT job, attempt, generation, rank, packed FROM points");
  more = row.Step();
  for (; more.ok() && *more; more = row.Step()) {
    const worker::RankKey key{static_cast<uint64_t>(row.Int(0)), static_cast<uint32_t>(row.Int(1)),
                              static_cast<uint32_t>(row.Int(2)), static_cast<uint32_t>(row.Int(3))};
    const std::string packed = row.Text(4);
    for (const auto& [id, text] : names) {
      std::vector<mc::PackedPoint> points;
      const absl::Status unpacked = mc::UnpackPoints(packed, id, points);
      if (!unpacked.ok()) return fail(unpacked), rows;
      for (const mc::PackedPoint& point : points) {
        ++rows[{{key, static_cast<uint64_t>(point.time_ms)}, text, point.step}];
      }
    }
  }
  if (!more.ok()) fail(more.status());
  return rows;
}

void MetricsModel::Check(Disk& disk) {
  Disk copy = disk.Copy();
  copy.Mount();
  std::map<Row, uint64_t> rows = ReadRows();
  disk.Mount();
  for (const auto& [id, record] : records_) {
    bool whole = true;
    for (const std::string& name : record.names) {
      const auto node = rows.extract({id, name, record.step});
      const uint64_t times = node.empty() ? 0 : node.mapped();
      whole = whole && times > 0;
      if (times > 1) {
        trace_.Fail(NameOf(id, name, record.step), " is stored ", times, " times");
      } else if (times == 0 && record.state != State::kMayBeLost) {
        trace_.Fail(NameOf(id, name, record.step), " was taken and is not stored",
                    record.state == State::kStored ? ", though its agent was told so" : "");
      }
    }
    lost_ += whole ? 0 : 1;
  }
  for (const auto& [row, times] : rows) {
    trace_.Fail(NameOf(row.id, row.name, row.step), " is stored, but no agent took it");
  }
  trace_.Note("metrics: ", records_.size(), " records, ", lost_, " lost");
}

void SpooledRecords::OnAcknowledged(worker::SpoolPosition position, MetricsModel& model) {
  for (; !records_.empty() && records_.front().first <= position; records_.pop_front()) {
    model.OnStored(records_.front().second);
  }
}

void SpooledRecords::OnDropped(worker::SpoolPosition position, MetricsModel& model) {
  for (; !records_.empty() && records_.front().first <= position; records_.pop_front()) {
    model.OnMayBeLost(records_.front().second);
  }
}

void SpooledRecords::OnLost(MetricsModel& model) {
  for (const auto& [end, id] : records_) model.OnMayBeLost(id);
  records_.clear();
}

}  // namespace muster::sim
