// The rows of metrics.db as they stand there, without the query that merges what several attempts
// reported: what was stored twice shows, and so does what was lost.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace muster::testing {

// One life of one rank.
struct RankLife {
  uint32_t attempt = 0, generation = 0, rank = 0;
  auto operator<=>(const RankLife&) const = default;
};

struct PointRow {
  uint64_t first_seq = 0, last_seq = 0;               // of the records in it
  std::map<std::string, std::vector<int64_t>> steps;  // of each metric, in the order as stored
};

struct LogRow {
  uint64_t offset = 0;
  std::string text;
};

struct RawRows {
  std::map<RankLife, std::vector<PointRow>> points;               // in the order of arrival
  std::map<RankLife, uint64_t> last_seq;                          // how far each was taken in
  std::map<std::pair<RankLife, bool>, std::vector<LogRow>> logs;  // and whether stderr
  uint64_t gaps = 0;                                              // what was noted as lost
};

// Of a controller that is not running, or the file is not to be had. Failures when a row says
// something else than what is packed in it.
RawRows ReadRawRows(const std::string& metrics_db, uint64_t job);

// No record of any rank is missing or stands there twice: the sequence numbers of each life's rows
// are 1, 2, 3, ... to the last one, and no metric has two values at a step.
void ExpectEachRecordOnce(const RawRows& rows);
// The text of each stream, from its first byte on, without holes or overlaps.
std::string WholeText(const RawRows& rows, const RankLife& life, bool is_stderr);

}  // namespace muster::testing
