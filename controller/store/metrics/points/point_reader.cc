#include "controller/store/metrics/points/point_reader.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "controller/store/metrics/points/rollup.h"

namespace muster::controller {

std::string PointReading::EncodeToken(const Position& position) {
  return absl::StrCat(position.step, "/", position.metric);
}

absl::StatusOr<PointReading::Position> PointReading::DecodeToken(absl::string_view token) {
  const size_t slash = token.find('/');
  Position position;
  if (slash == token.npos || !absl::SimpleAtoi(token.substr(0, slash), &position.step)) {
    return absl::InvalidArgumentError("page_token: not one that this controller gave");
  }
  position.metric = std::string(token.substr(slash + 1));
  return position;
}

absl::StatusOr<bool> PointReading::Turn(SqliteDatabase& db) {
  if (!begun_) MUSTER_RETURN_IF_ERROR(Begin(db));
  begun_ = true;
  TurnBudget budget;
  while (next_ < metrics_.size()) {
    if (!scan_.has_value() && !BeginSeries()) return true;
    MUSTER_RETURN_IF_ERROR(
        scan_->ReadOn(db, budget, [this](const PackedPoint& point) { return Take(point); }));
    if (!scan_->ended()) return false;
    EndSeries();
    if (!page_.next_page_token.empty()) return true;
  }
  return true;
}

absl::Status PointReading::Begin(SqliteDatabase& db) {
  position_.step = query_.from_step;
  if (!query_.page_token.empty()) {
    MUSTER_ASSIGN_OR_RETURN(position_, DecodeToken(query_.page_token));
  }
  MUSTER_RETURN_IF_ERROR(FindMetrics(db));
  MUSTER_RETURN_IF_ERROR(FindSegments(db));
  return thins() ? FindLevel(db) : absl::OkStatus();
}

absl::Status PointReading::FindLevel(SqliteDatabase& db) {
  const bool is_bounded = query_.to_step > 0 && query_.to_step < Segment::kEnd;
  const int64_t to = is_bounded ? query_.to_step + 1 : Segment::kEnd;
  MUSTER_ASSIGN_OR_RETURN(level_, RollupLevelFor(db, query_.job_id, query_.rank, query_.from_step,
                                                 to, query_.max_points));
  return absl::OkStatus();
}

absl::Status PointReading::FindMetrics(SqliteDatabase& db) {
  SqliteStatement select = db.Prepare(
      "SELECT n.name FROM job_names j JOIN metric_names n ON n.id = j.name_id "
      "WHERE j.job = ? AND j.rank = ? AND n.name >= ? ORDER BY n.name");
  select.Bind(query_.job_id).Bind(query_.rank).Bind(position_.metric);
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
    if (!has_row) return absl::OkStatus();
    std::string name = select.Text(0);
    if (query_.names.empty() ||
        std::find(query_.names.begin(), query_.names.end(), name) != query_.names.end()) {
      metrics_.push_back(std::move(name));
    }
  }
}

absl::Status PointReading::FindSegments(SqliteDatabase& db) {
  SqliteStatement select = db.Prepare(
      "SELECT attempt, generation, min(first_step) FROM rank_marks WHERE job = ? AND "
      "first_step IS NOT NULL GROUP BY attempt, generation ORDER BY attempt, generation");
  select.Bind(query_.job_id);
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
    if (!has_row) break;
    segments_.push_back({static_cast<uint32_t>(select.Int(0)), static_cast<uint32_t>(select.Int(1)),
                         select.Int(2), Segment::kEnd});
  }
  int64_t taken_over_from = Segment::kEnd;
  for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment) {
    segment->to = taken_over_from == Segment::kEnd ? Segment::kEnd : taken_over_from + 1;
    taken_over_from = std::min(taken_over_from, segment->from);
  }
  // Narrowed to what was asked for; what is left ascends.
  for (Segment& segment : segments_) {
    segment.from = std::max(segment.from, query_.from_step);
    if (query_.to_step > 0 && query_.to_step < Segment::kEnd) {
      segment.to = std::min(segment.to, query_.to_step + 1);
    }
  }
  std::erase_if(segments_, [](const Segment& s) { return s.from >= s.to; });
  return absl::OkStatus();
}

bool PointReading::BeginSeries() {
  const std::string& metric = metrics_[next_];
  const size_t filled = page_.points.size();
  // The points of a thinned series stand in one page.
  const bool fits =
      filled == 0 || filled + std::max(query_.max_points, 1u) <= size_t{query_.page_size};
  if (!fits) {
    page_.next_page_token = EncodeToken({metric, query_.from_step});
    return false;
  }
  std::vector<Segment> segments = segments_;
  if (!thins() && metric == position_.metric) {
    for (Segment& segment : segments) segment.from = std::max(segment.from, position_.step);
  }
  scan_.emplace(SeriesName{query_.job_id, query_.rank, metric}, std::move(segments), level_);
  if (thins()) thinner_.emplace(query_.max_points);
  return true;
}

void PointReading::EndSeries() {
  if (thins()) {
    for (const PackedPoint& point : thinner_->Choose()) AddToPage(point);
  }
  scan_.reset();
  ++next_;
}

bool PointReading::Take(const PackedPoint& point) {
  if (thins()) {
    thinner_->Add(point);
    return true;
  }
  if (page_.points.size() == query_.page_size) {
    page_.next_page_token = EncodeToken({metrics_[next_], point.step});
    return false;
  }
  AddToPage(point);
  return true;
}

void PointReading::AddToPage(const PackedPoint& point) {
  page_.points.push_back({metrics_[next_], point.step, point.time_ms, point.value});
}

}  // namespace muster::controller
