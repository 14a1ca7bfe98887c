#include "controller/store/point_reader.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "controller/store/point_codec.h"

namespace muster::controller {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
// Steps that are read at a time where a whole series is thinned out.
constexpr size_t kThinningPage = 10000;

struct NamedSeries {
  std::string name;
  int64_t id = 0;
};

// The steps [from, to) that one generation of one attempt shows: later ones took over what comes
// after. Its last step may be the first one of the next segment, too: whoever resumes at the end of
// a step may report more about it, a validation that was owed or the test. What both report of it
// is the later one's.
struct Segment {
  uint32_t attempt = 0;
  uint32_t generation = 0;
  int64_t from = 0;
  int64_t to = kEnd;
};

struct Position {
  std::string name;
  int64_t step = 0;
};

std::string EncodeToken(const Position& position) {
  return absl::StrCat(position.step, "/", position.name);
}

absl::StatusOr<Position> DecodeToken(absl::string_view token) {
  const size_t slash = token.find('/');
  Position position;
  if (slash == token.npos || !absl::SimpleAtoi(token.substr(0, slash), &position.step)) {
    return absl::InvalidArgumentError("page_token: not one that this controller gave");
  }
  position.name = std::string(token.substr(slash + 1));
  return position;
}

absl::StatusOr<std::vector<NamedSeries>> FindSeries(SqliteDatabase& db, const PointQuery& query) {
  SqliteStatement select = db.Prepare(
      "SELECT n.name, n.id FROM job_names j JOIN metric_names n ON n.id = "
      "j.name_id WHERE j.job = ? AND j.rank = ? ORDER BY n.name");
  select.Bind(query.job_id);
  select.Bind(query.rank);
  std::vector<NamedSeries> series;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
    if (!has_row) return series;
    std::string name(select.Text(0));
    if (query.names.empty() ||
        std::find(query.names.begin(), query.names.end(), name) != query.names.end()) {
      series.push_back({std::move(name), select.Int(1)});
    }
  }
}

absl::StatusOr<std::vector<Segment>> FindSegments(SqliteDatabase& db, const PointQuery& query) {
  SqliteStatement select = db.Prepare(
      "SELECT attempt, generation, min(first_step) FROM rank_marks WHERE job = ? AND "
      "first_step IS NOT NULL GROUP BY attempt, generation ORDER BY attempt, generation");
  select.Bind(query.job_id);
  std::vector<Segment> segments;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
    if (!has_row) break;
    segments.push_back({static_cast<uint32_t>(select.Int(0)), static_cast<uint32_t>(select.Int(1)),
                        select.Int(2), kEnd});
  }
  int64_t taken_over_from = kEnd;
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
    segment->to = taken_over_from == kEnd ? kEnd : taken_over_from + 1;
    taken_over_from = std::min(taken_over_from, segment->from);
  }
  // Narrowed to what was asked for; what is left is disjoint and ascending.
  for (Segment& segment : segments) {
    segment.from = std::max(segment.from, query.from_step);
    if (query.to_step > 0 && query.to_step < kEnd) {
      segment.to = std::min(segment.to, query.to_step + 1);
    }
  }
  segments.erase(std::remove_if(segments.begin(), segments.end(),
                                [](const Segment& s) { return s.from >= s.to; }),
                 segments.end());
  return segments;
}

// Reads one name of one segment from `from` on into `out`, at least `limit` steps if there are so
// many. Requires that `out` holds earlier segments.
absl::Status ReadSegment(SqliteDatabase& db, const PointQuery& query, const Segment& segment,
                         const NamedSeries& series, size_t limit,
                         std::map<int64_t, PackedPoint>& out) {
  SqliteStatement select = db.Prepare(
      "SELECT min_step, packed FROM points INDEXED BY points_by_step WHERE job = ? AND "
      "rank = ? AND attempt = ? AND generation = ? AND max_step >= ? AND min_step < ? "
      "ORDER BY min_step, id");
  select.Bind(query.job_id);
  select.Bind(query.rank);
  select.Bind(segment.attempt);
  select.Bind(segment.generation);
  select.Bind(segment.from);
  select.Bind(segment.to);
  std::map<int64_t, PackedPoint> found;
  std::vector<PackedPoint> points;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
    if (!has_row) break;
    // Rows come by their smallest step: once enough is found below it, no later row can add to
    // that.
    if (found.size() >= limit && std::next(found.begin(), limit - 1)->first < select.Int(0)) break;
    points.clear();
    MUSTER_RETURN_IF_ERROR(UnpackPoints(select.Text(1), static_cast<uint64_t>(series.id), points));
    for (const PackedPoint& point : points) {
      if (point.step >= segment.from && point.step < segment.to) {
        found.insert_or_assign(point.step, point);
      }
    }
  }
  found.merge(out);
  out = std::move(found);
  return absl::OkStatus();
}

// Up to `limit` points of one series with steps from `from` on, ascending. `next_step` is where to
// go on; kEnd: done.
absl::StatusOr<std::vector<PackedPoint>> ReadSeries(SqliteDatabase& db, const PointQuery& query,
                                                    const std::vector<Segment>& segments,
                                                    const NamedSeries& series, int64_t from,
                                                    size_t limit, int64_t& next_step) {
  std::map<int64_t, PackedPoint> found;
  for (Segment segment : segments) {
    segment.from = std::max(segment.from, from);
    if (segment.from >= segment.to) continue;
    if (found.size() > limit && found.rbegin()->first < segment.from) break;
    // One more than is missing: the first may take the place of the last that was found.
    const size_t missing = limit + 1 - std::min(found.size(), limit + 1);
    MUSTER_RETURN_IF_ERROR(ReadSegment(db, query, segment, series, missing + 1, found));
  }
  next_step = kEnd;
  std::vector<PackedPoint> points;
  for (const auto& [step, point] : found) {
    if (points.size() == limit) {
      next_step = step;
      break;
    }
    points.push_back(point);
  }
  return points;
}

// Keeps at most `max_points` of a series of unknown length, evenly spread, its first and last among
// them.
absl::StatusOr<std::vector<PackedPoint>> ReadThinned(SqliteDatabase& db, const PointQuery& query,
                                                     const std::vector<Segment>& segments,
                                                     const NamedSeries& series) {
  const size_t most = std::max<size_t>(query.max_points, 2) * 4;  // before the last, even choice
  std::vector<PackedPoint> kept;
  PackedPoint last;
  uint64_t index = 0;
  uint64_t stride = 1;
  for (int64_t from = query.from_step; from != kEnd;) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<PackedPoint> page,
                            ReadSeries(db, query, segments, series, from, kThinningPage, from));
    for (const PackedPoint& point : page) {
      last = point;
      if (index++ % stride == 0) kept.push_back(point);
      if (kept.size() < most) continue;
      for (size_t i = 0; 2 * i < kept.size(); ++i) kept[i] = kept[2 * i];
      kept.resize((kept.size() + 1) / 2);
      stride *= 2;
    }
  }
  if (!kept.empty() && kept.back().step != last.step) kept.push_back(last);
  if (kept.size() <= query.max_points) return kept;
  std::vector<PackedPoint> chosen;
  const size_t want = query.max_points;
  for (size_t i = 0; i < want; ++i) {
    chosen.push_back(want == 1 ? kept.back() : kept[i * (kept.size() - 1) / (want - 1)]);
  }
  return chosen;
}

}  // namespace

absl::StatusOr<PointPage> ReadPointPage(SqliteDatabase& db, const PointQuery& query) {
  Position position;
  position.step = query.from_step;
  if (!query.page_token.empty()) {
    MUSTER_ASSIGN_OR_RETURN(position, DecodeToken(query.page_token));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<NamedSeries> all, FindSeries(db, query));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Segment> segments, FindSegments(db, query));
  PointPage page;
  for (const NamedSeries& series : all) {
    if (series.name < position.name) continue;
    const int64_t from = series.name == position.name ? position.step : query.from_step;
    const size_t room = query.page_size - page.points.size();
    std::vector<PackedPoint> points;
    int64_t next_step = kEnd;
    if (query.max_points > 0) {
      if (room < query.max_points && !page.points.empty()) {
        page.next_page_token = EncodeToken({series.name, query.from_step});
        return page;
      }
      MUSTER_ASSIGN_OR_RETURN(points, ReadThinned(db, query, segments, series));
    } else {
      if (room == 0) {
        page.next_page_token = EncodeToken({series.name, query.from_step});
        return page;
      }
      MUSTER_ASSIGN_OR_RETURN(points,
                              ReadSeries(db, query, segments, series, from, room, next_step));
    }
    for (const PackedPoint& point : points) {
      page.points.push_back({series.name, point.step, point.time_ms, point.value});
    }
    if (next_step != kEnd) {
      page.next_page_token = EncodeToken({series.name, next_step});
      return page;
    }
  }
  return page;
}

}  // namespace muster::controller
