// One page of metric points, read from metrics.db in turns. Turned by MetricsStore on its owner's
// thread; between two turns the owner does other things.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "controller/model/types/metrics_types.h"
#include "controller/store/metrics/points/point_thinner.h"
#include "controller/store/metrics/points/series_scan.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

// A later attempt or generation supersedes the steps of earlier ones after the first step that any
// rank of it reported; of that step itself only what it reports, too, for it may have resumed there
// and added a test to what is known. What is stored between two turns may be in the page or not.
class PointReading {
 public:
  explicit PointReading(PointQuery query) : query_(std::move(query)) {}

  // Reads on for one turn. True: the page is whole. INVALID_ARGUMENT: a page token that is not
  // ours.
  absl::StatusOr<bool> Turn(SqliteDatabase& db);

  PointPage TakePage() { return std::move(page_); }

 private:
  // Where a page begins: at a step of a metric.
  struct Position {
    std::string metric;
    int64_t step = 0;
  };
  static std::string EncodeToken(const Position& position);
  static absl::StatusOr<Position> DecodeToken(absl::string_view token);

  absl::Status Begin(SqliteDatabase& db);
  absl::Status FindMetrics(SqliteDatabase& db);
  absl::Status FindSegments(SqliteDatabase& db);
  absl::Status FindLevel(SqliteDatabase& db);
  // Begins with metrics_[next_]. False: the page has no room for it.
  bool BeginSeries();
  void EndSeries();
  // False: the page is full.
  bool Take(const PackedPoint& point);
  void AddToPage(const PackedPoint& point);
  bool thins() const { return query_.max_points > 0; }

  const PointQuery query_;
  bool begun_ = false;
  Position position_;
  std::vector<std::string> metrics_;  // of this page and later ones, by name
  std::vector<Segment> segments_;
  int level_ = 0;  // of the rollups that are read
  size_t next_ = 0;
  std::optional<SeriesScan> scan_;       // of metrics_[next_]
  std::optional<PointThinner> thinner_;  // likewise
  PointPage page_;
};

}  // namespace muster::controller
