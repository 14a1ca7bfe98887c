// What metrics.db keeps, as plain data: points and log chunks of ranks, and what was lost of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster::controller {

// One life of one rank. Sequence numbers and log offsets count within it.
struct RankKey {
  uint64_t job_id = 0;
  uint32_t attempt = 0;
  uint32_t generation = 0;
  uint32_t rank = 0;

  auto operator<=>(const RankKey&) const = default;
};

struct Point {
  std::string name;
  int64_t step = 0;
  int64_t time_ms = 0;  // the rank's wall clock, Unix milliseconds; for display only
  double value = 0;
};

// Points that a rank reported together. `seq` is +1 each, from 1.
struct PointRecord {
  RankKey key;
  uint64_t seq = 0;
  std::vector<Point> points;
};

struct LogChunk {
  RankKey key;
  bool is_stderr = false;
  uint64_t offset = 0;  // of the first byte in the rank's stream
  std::string text;
  int64_t written_ms = 0;  // by the worker's wall clock, Unix milliseconds; 0: unknown
};

// The agent's spool was full: this much is gone.
struct Gap {
  RankKey key;
  uint64_t first_seq = 0;  // of metrics; 0: none lost
  uint64_t last_seq = 0;
  uint64_t log_bytes = 0;
};

struct MetricsBatch {
  std::vector<PointRecord> points;
  std::vector<LogChunk> logs;
  std::vector<Gap> gaps;
  std::string worker;  // who sent it
};

// What became of a batch's parts. Counters.
struct IngestCounts {
  uint64_t points = 0;               // stored
  uint64_t log_bytes = 0;            // stored
  uint64_t duplicate_records = 0;    // metric records seen before
  uint64_t duplicate_log_bytes = 0;  // trimmed: seen before
  uint64_t dropped_log_bytes = 0;    // the oldest ones, of jobs that wrote more than is kept
  uint64_t dropped_points = 0;       // likewise
  uint64_t gaps = 0;                 // holes in a sequence or a stream, recorded
  uint64_t refused_points = 0;       // bad or too many names
  uint64_t refused_records = 0;      // of a job or attempt that is not known

  void Add(const IngestCounts& other);
};

struct PointQuery {
  uint64_t job_id = 0;
  uint32_t rank = 0;
  std::vector<std::string> names;  // empty: all
  int64_t from_step = 0;
  int64_t to_step = 0;      // 0: to the end
  uint32_t page_size = 0;   // 1 or more
  std::string page_token;   // empty: the first page
  uint32_t max_points = 0;  // per name, evenly spread; 0: all
};

struct PointPage {
  std::vector<Point> points;    // by name, then step; one per (name, step)
  std::string next_page_token;  // empty: the last page
};

// What is kept of one job's logs and points, unless something else is asked for.
inline constexpr uint64_t kDefaultJobLogBytes = 256 << 20;
inline constexpr uint64_t kDefaultJobPointBytes = 1 << 30;

// A chunk of a job's logs, in the order of attempts.
struct LogCursor {
  uint32_t attempt = 0;
  int64_t id = 0;
};

struct StoredLogChunk {
  int64_t id = 0;
  LogChunk chunk;
};

struct LogQuery {
  uint64_t job_id = 0;
  std::optional<uint32_t> rank;
  std::optional<uint32_t> attempt;
  uint32_t tail_lines = 0;  // only so many of each rank, of what is there at first; 0: all
  bool follow = false;      // what arrives later, too
  // By the time at which it was written, Unix milliseconds; 0: no bound. What has no time is left
  // out where there is one.
  int64_t since_ms = 0;
  int64_t until_ms = 0;  // before it

  bool has_times() const { return since_ms != 0 || until_ms != 0; }
  bool Covers(int64_t written_ms) const {
    if (written_ms == 0) return !has_times();
    return written_ms >= since_ms && (until_ms == 0 || written_ms < until_ms);
  }
};

// Where the last lines of one rank begin: in chunk `start` (then every later one), after skipping
// so many bytes of it.
struct LogTail {
  uint32_t rank = 0;
  LogCursor start;
  uint64_t skip_bytes = 0;
};

// How far a reader of logs has come: first it gets what was stored when it began, by attempt, then
// what arrives, by id.
struct LogPosition {
  bool begun = false;
  int64_t newest_id = 0;              // what was stored ends here
  std::map<uint32_t, LogTail> tails;  // by rank, where a tail was asked for
  LogCursor cursor;                   // in what was stored
  bool following = false;
  int64_t followed_id = 0;  // in what arrives
};

struct LogPage {
  std::vector<StoredLogChunk> chunks;
  LogPosition position;  // after them
};

}  // namespace muster::controller
