// One metric of one rank, read from metrics.db row by row and in turns, so that a series of
// millions of points holds nobody up. Used by PointReading, on the thread of the database's owner.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/store/metrics/points/point_codec.h"
#include "controller/store/metrics/turn_budget.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

// The steps [from, to) that one generation of one attempt shows: later ones took over what comes
// after. Its last step may be the first one of the next segment, too: whoever resumes at the end of
// a step may report more about it, a validation that was owed or the test. What both report of it
// is the later one's.
struct Segment {
  static constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

  uint32_t attempt = 0;
  uint32_t generation = 0;
  int64_t from = 0;
  int64_t to = kEnd;
};

struct SeriesName {
  uint64_t job_id = 0;
  uint32_t rank = 0;
  std::string metric;
};

class SeriesScan {
 public:
  // `segments` ascend, and share no more than the step told of above. `level`: of the rollups that
  // are read (rollup.h), and what these do not cover yet from lower ones and the points themselves.
  // 0: all points.
  SeriesScan(SeriesName name, std::vector<Segment> segments, int level = 0)
      : name_(std::move(name)), segments_(std::move(segments)), top_level_(level), level_(level) {}

  // Gives the points on, one a step and by step, until `take` refuses one (false), the budget is
  // spent or all are given. Keeps nothing of the database from one call to the next.
  using Take = std::function<bool(const PackedPoint& point)>;
  absl::Status ReadOn(SqliteDatabase& db, TurnBudget& budget, const Take& take);

  // All were given, or one was refused.
  bool ended() const { return refused_ || segment_ == segments_.size(); }

 private:
  // Both true: to the end, of the segment or of what level_ has of it.
  absl::StatusOr<bool> ReadSegment(SqliteDatabase& db, TurnBudget& budget, const Take& take);
  absl::StatusOr<bool> ReadLevel(SqliteDatabase& db, TurnBudget& budget, const Take& take);
  absl::Status ReadRow(SqliteDatabase& db, int64_t id, TurnBudget& budget);
  // Gives what was found below the step, to which no later row adds.
  void GiveBelow(int64_t step, const Take& take);
  // Where the next segment begins.
  int64_t NextFrom() const;

  const SeriesName name_;
  const std::vector<Segment> segments_;
  const int top_level_;
  size_t segment_ = 0;  // being read
  int level_;           // being read of it
  // A row of points that rollups cover, and where the rollup that covers it begins.
  struct Covered {
    int64_t row = 0;
    int64_t min_step = 0;
  };
  Covered covered_;     // the newest one by higher levels; what this level has of it is passed over
  Covered newest_;      // the newest one by this level, too
  int64_t given_ = -1;  // the last step that was given of the segment
  // The last row that was read of it. Rows come by their smallest step.
  int64_t min_step_ = -1;
  int64_t row_id_ = 0;
  uint64_t name_id_ = 0;                  // of this turn
  std::map<int64_t, PackedPoint> found_;  // by step, not given yet
  bool refused_ = false;
};

}  // namespace muster::controller
