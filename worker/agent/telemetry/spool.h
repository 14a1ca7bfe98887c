// The agent's bounded queue on disk for metrics and logs on their way to the controller.
//
// Records are appended to the newest of a few segment files, read in order by the bulk sender, and
// removed once the controller has acknowledged them. When the bound is reached the oldest segment
// goes, and a GapRecord says what it held. High-water marks (the last metric sequence and log
// offset of each rank) are written at the head of each segment, so they survive a restart of the
// agent, and a record is spooled once. Appending writes but does not fsync: what was appended
// survives a killed agent; a crashed machine loses its ranks too. Each Open starts a new segment, a
// torn tail ends the old one. One thread; files through FileSystem only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/base/rank_key.h"
#include "worker/agent/telemetry/spool_format.h"

namespace muster::worker {

struct SpoolOptions {
  std::string directory;
  uint64_t max_bytes = 256ull << 20;  // on disk, all segments together; at least four segments
  uint64_t segment_bytes = 4u << 20;  // a segment is closed once it is this large
};

struct SpoolBatch {
  v1::BulkBatch records;  // without hello and batch_id
  SpoolPosition end;      // acknowledge this when the controller has the batch
  size_t count = 0;
};

class Spool {
 public:
  // INVALID_ARGUMENT: a bound below four segments. Otherwise the file system's errors; but a full
  // disk is none where a spool is there already.
  static absl::StatusOr<std::unique_ptr<Spool>> Open(FileSystem& fs, SpoolOptions options);

  // A record at or below the rank's mark is dropped: it was spooled before. When the disk refuses,
  // the status says so and the record is not in the spool; nothing else is lost.
  absl::Status Append(const v1::MetricRecord& record);
  absl::Status Append(const v1::LogRecord& record);
  // Remembers that a rank's metric record was lost; written with the next record that the disk
  // takes.
  void RecordLoss(const v1::MetricRecord& record);
  // The same of all from `first_seq` to `last_seq`.
  void RecordLoss(const RankKey& key, uint64_t first_seq, uint64_t last_seq);

  // Up to max_records and about max_bytes from `from` on (what lies before the oldest kept record
  // is skipped). `end` moves past broken places.
  absl::StatusOr<SpoolBatch> Read(SpoolPosition from, size_t max_records, size_t max_bytes);

  // Everything before `position` may go. Never moves back.
  void Acknowledge(SpoolPosition position);
  SpoolPosition acknowledged() const { return acknowledged_; }
  SpoolPosition end() const { return {active_, segments_.at(active_)}; }
  bool HasUnacknowledged() const { return acknowledged_ < last_record_end_; }

  uint64_t MetricMark(const RankKey& key) const;  // 0: none yet
  uint64_t LogMark(const RankKey& key, bool is_stderr) const;
  // Nobody is left to send what is in it to.
  void Abandon();
  // The rank's folder is gone for good: its marks may be forgotten.
  void Forget(const RankKey& key);
  bool HasMarks(const RankKey& key) const { return marks_.contains(key); }
  std::vector<RankKey> MarkedRanks() const;

  uint64_t bytes() const { return total_bytes_; }
  uint64_t pending_bytes() const;  // not acknowledged yet
  uint64_t max_bytes() const { return options_.max_bytes; }
  uint64_t dropped_records() const { return dropped_records_; }

 private:
  struct Marks {
    uint64_t metric_seq = 0;
    uint64_t log_offset[2] = {0, 0};  // stdout, stderr
  };

  Spool(FileSystem& fs, SpoolOptions options) : fs_(fs), options_(std::move(options)) {}
  absl::Status Recover();
  absl::Status Recover(uint64_t segment, uint64_t size);
  // After an error there is no new one, and no file of it.
  absl::Status StartSegment();
  std::string SegmentHead() const;
  absl::Status AppendRecord(SpoolKind kind, absl::string_view payload);
  absl::Status WriteRaw(absl::string_view bytes);
  absl::Status WriteGaps();
  absl::Status MakeRoom(uint64_t bytes);
  void DropOldest();
  void RemoveSegment(uint64_t segment);
  void TrimAcknowledged();
  void NoteRecord(SpoolKind kind, absl::string_view payload);
  void NoteLost(SpoolKind kind, absl::string_view payload);
  std::string Path(uint64_t segment) const;
  absl::StatusOr<std::string> ReadBytes(uint64_t segment, uint64_t offset, uint64_t bytes);

  FileSystem& fs_;
  const SpoolOptions options_;
  std::map<uint64_t, uint64_t> segments_;  // number -> bytes that are whole records
  uint64_t active_ = 0;
  std::unique_ptr<WritableFile> file_;  // of the active segment; null after a failed write
  uint64_t total_bytes_ = 0;
  SpoolPosition acknowledged_;
  SpoolPosition last_record_end_;  // end of the newest record that the controller must see
  std::map<RankKey, Marks> marks_;
  std::map<RankKey, v1::GapRecord> gaps_;  // lost, and not yet on disk as a record
  uint64_t dropped_records_ = 0;
};

}  // namespace muster::worker
