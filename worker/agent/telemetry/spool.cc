#include "worker/agent/telemetry/spool.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

// Read in one piece when records are wanted; at least one whole record always fits.
constexpr uint64_t kSpoolReadBytes = 256u << 10;

bool IsForController(SpoolKind kind) {
  return kind == SpoolKind::kMetrics || kind == SpoolKind::kLog || kind == SpoolKind::kGap;
}

// False when the payload is no such message.
bool AddToBatch(const RawSpoolRecord& record, v1::BulkBatch& batch) {
  const std::string payload(record.payload);
  if (record.kind == SpoolKind::kMetrics) {
    v1::MetricRecord metrics;
    if (!metrics.ParseFromString(payload)) return false;
    *batch.add_metrics() = std::move(metrics);
  } else if (record.kind == SpoolKind::kLog) {
    v1::LogRecord log;
    if (!log.ParseFromString(payload)) return false;
    *batch.add_logs() = std::move(log);
  } else {
    v1::GapRecord gap;
    if (!gap.ParseFromString(payload)) return false;
    *batch.add_gaps() = std::move(gap);
  }
  return true;
}

// Adds what `lost` names to `gap`.
void MergeMetrics(uint64_t first_seq, uint64_t last_seq, v1::GapRecord& gap) {
  if (first_seq == 0) return;
  if (gap.first_seq() == 0 || first_seq < gap.first_seq()) gap.set_first_seq(first_seq);
  gap.set_last_seq(std::max(gap.last_seq(), last_seq));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Spool>> Spool::Open(FileSystem& fs, SpoolOptions options) {
  if (options.segment_bytes == 0 || options.max_bytes / 4 < options.segment_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("spool: a bound of ", options.max_bytes,
                                                   " bytes is less than four segments of ",
                                                   options.segment_bytes));
  }
  auto spool = std::unique_ptr<Spool>(new Spool(fs, std::move(options)));
  MUSTER_RETURN_IF_ERROR(spool->fs_.MakeDirectories(spool->options_.directory));
  MUSTER_RETURN_IF_ERROR(spool->Recover());
  const absl::Status begun = spool->StartSegment();
  // What is there may be what fills the disk: it goes when it is sent.
  const bool waits = absl::IsResourceExhausted(begun) && !spool->segments_.empty();
  if (!begun.ok() && !waits) return begun;
  spool->TrimAcknowledged();
  return spool;
}

std::string Spool::Path(uint64_t segment) const {
  return absl::StrCat(options_.directory, "/", SpoolSegmentName(segment));
}

absl::Status Spool::Recover() {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> files, fs_.List(options_.directory));
  for (const FileInfo& file : files) {
    const std::optional<uint64_t> segment = ParseSpoolSegmentName(file.name);
    if (!segment.has_value() || *segment > kMaxSpoolSegment) continue;
    MUSTER_RETURN_IF_ERROR(Recover(*segment, file.size_bytes));
    active_ = *segment;
  }
  // What was never here is not acknowledged, or records to come would be taken for delivered.
  const SpoolPosition last =
      segments_.empty() ? SpoolPosition() : SpoolPosition{active_, segments_.at(active_)};
  acknowledged_ = std::min(acknowledged_, last);
  return absl::OkStatus();
}

absl::Status Spool::Recover(uint64_t segment, uint64_t size) {
  MUSTER_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(segment, 0, size));
  const absl::string_view all = bytes;
  uint64_t offset = 0;
  if (all.substr(0, kSpoolMagic.size()) == kSpoolMagic) {
    offset = kSpoolMagic.size();
    while (const auto record = DecodeSpoolRecord(all.substr(offset))) {
      offset += record->total_bytes;
      NoteRecord(record->kind, record->payload);
      if (IsForController(record->kind)) last_record_end_ = {segment, offset};
    }
  }
  if (offset < size) {
    Log(LogLevel::kWarning, "spool_tail_dropped",
        {{"segment", Path(segment)}, {"offset", offset}, {"bytes", size - offset}});
  }
  segments_[segment] = offset;
  total_bytes_ += offset;
  return absl::OkStatus();
}

absl::Status Spool::StartSegment() {
  file_.reset();
  const uint64_t before = active_;
  const uint64_t segment = before + 1;
  if (segment > kMaxSpoolSegment) {
    return absl::ResourceExhaustedError(
        absl::StrCat("spool: ", Path(before),
                     " has the last number that a segment can have; end "
                     "the agent and remove that file, which no agent wrote"));
  }
  MUSTER_ASSIGN_OR_RETURN(file_, fs_.CreateExclusive(Path(segment)));
  active_ = segment;
  segments_[segment] = 0;
  absl::Status written = WriteRaw(kSpoolMagic);
  if (written.ok()) written = WriteRaw(SegmentHead());
  // A full disk takes files, but not what stands in them: the next try makes this one anew.
  if (!written.ok() && segments_.contains(before)) {
    RemoveSegment(segment);
    active_ = before;
  }
  return written;
}

std::string Spool::SegmentHead() const {
  std::string head = EncodeSpoolRecord(SpoolKind::kAck, EncodeSpoolPosition(acknowledged_));
  for (const auto& [key, marks] : marks_) {
    v1::MetricRecord metric;
    SetKey(key, metric);
    metric.set_seq(marks.metric_seq);
    head += EncodeSpoolRecord(SpoolKind::kMetricMark, metric.SerializeAsString());
    for (const bool is_stderr : {false, true}) {
      v1::LogRecord log;
      SetKey(key, log);
      log.set_is_stderr(is_stderr);
      log.set_offset(marks.log_offset[is_stderr]);
      head += EncodeSpoolRecord(SpoolKind::kLogMark, log.SerializeAsString());
    }
  }
  return head;
}

absl::Status Spool::WriteRaw(absl::string_view bytes) {
  if (const absl::Status status = file_->Append(bytes); !status.ok()) {
    // Nobody knows how much of it is on disk: the next record goes to a new segment, this one ends
    // where it was whole.
    file_.reset();
    return status;
  }
  segments_[active_] += bytes.size();
  total_bytes_ += bytes.size();
  return absl::OkStatus();
}

absl::Status Spool::Append(const v1::MetricRecord& record) {
  if (record.seq() <= MetricMark(KeyOf(record))) return absl::OkStatus();
  return AppendRecord(SpoolKind::kMetrics, record.SerializeAsString());
}

absl::Status Spool::Append(const v1::LogRecord& record) {
  const uint64_t mark = LogMark(KeyOf(record), record.is_stderr());
  if (record.offset() + record.text().size() <= mark) return absl::OkStatus();
  MUSTER_CHECK(record.offset() >= mark, "a log record overlaps what is in the spool");
  return AppendRecord(SpoolKind::kLog, record.SerializeAsString());
}

absl::Status Spool::AppendRecord(SpoolKind kind, absl::string_view payload) {
  if (payload.size() > kMaxSpoolPayloadBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("spool: a record of ", payload.size(), " bytes"));
  }
  const std::string record = EncodeSpoolRecord(kind, payload);
  MUSTER_RETURN_IF_ERROR(MakeRoom(record.size()));
  MUSTER_RETURN_IF_ERROR(WriteGaps());
  MUSTER_RETURN_IF_ERROR(WriteRaw(record));
  last_record_end_ = end();
  NoteRecord(kind, payload);
  return absl::OkStatus();
}

absl::Status Spool::MakeRoom(uint64_t bytes) {
  if (file_ == nullptr || segments_[active_] >= options_.segment_bytes) {
    MUSTER_RETURN_IF_ERROR(StartSegment());
  }
  while (total_bytes_ + bytes > options_.max_bytes && segments_.size() > 1) {
    DropOldest();
  }
  return absl::OkStatus();
}

absl::Status Spool::WriteGaps() {
  while (!gaps_.empty()) {
    const std::string payload = gaps_.begin()->second.SerializeAsString();
    MUSTER_RETURN_IF_ERROR(WriteRaw(EncodeSpoolRecord(SpoolKind::kGap, payload)));
    last_record_end_ = end();
    gaps_.erase(gaps_.begin());
  }
  return absl::OkStatus();
}

void Spool::DropOldest() {
  const auto [segment, size] = *segments_.begin();
  const absl::StatusOr<std::string> bytes = ReadBytes(segment, 0, size);
  if (!bytes.ok()) {
    Log(LogLevel::kError, "spool_loss_unknown", {{"error", bytes.status().ToString()}});
  } else {
    uint64_t offset = std::min<uint64_t>(size, kSpoolMagic.size());
    while (const auto record = DecodeSpoolRecord(absl::string_view(*bytes).substr(offset))) {
      offset += record->total_bytes;
      const bool delivered = SpoolPosition{segment, offset} <= acknowledged_;
      if (!delivered) NoteLost(record->kind, record->payload);
    }
  }
  RemoveSegment(segment);
}

void Spool::NoteLost(SpoolKind kind, absl::string_view payload) {
  const std::string bytes(payload);
  if (kind == SpoolKind::kMetrics) {
    if (v1::MetricRecord record; record.ParseFromString(bytes)) RecordLoss(record);
  } else if (kind == SpoolKind::kLog) {
    v1::LogRecord record;
    if (!record.ParseFromString(bytes)) return;
    v1::GapRecord& gap = gaps_[KeyOf(record)];
    SetKey(KeyOf(record), gap);
    gap.set_log_bytes(gap.log_bytes() + record.text().size());
    ++dropped_records_;
  } else if (kind == SpoolKind::kGap) {
    v1::GapRecord older;
    if (!older.ParseFromString(bytes)) return;
    v1::GapRecord& gap = gaps_[KeyOf(older)];
    SetKey(KeyOf(older), gap);
    MergeMetrics(older.first_seq(), older.last_seq(), gap);
    gap.set_log_bytes(gap.log_bytes() + older.log_bytes());
  }
}

void Spool::RecordLoss(const v1::MetricRecord& record) {
  RecordLoss(KeyOf(record), record.seq(), record.seq());
}

void Spool::RecordLoss(const RankKey& key, uint64_t first_seq, uint64_t last_seq) {
  v1::GapRecord& gap = gaps_[key];
  SetKey(key, gap);
  MergeMetrics(first_seq, last_seq, gap);
  dropped_records_ += last_seq - first_seq + 1;
}

void Spool::NoteRecord(SpoolKind kind, absl::string_view payload) {
  const std::string bytes(payload);
  if (kind == SpoolKind::kMetrics || kind == SpoolKind::kMetricMark) {
    v1::MetricRecord record;
    if (!record.ParseFromString(bytes)) return;
    uint64_t& mark = marks_[KeyOf(record)].metric_seq;
    mark = std::max(mark, record.seq());
  } else if (kind == SpoolKind::kLog || kind == SpoolKind::kLogMark) {
    v1::LogRecord record;
    if (!record.ParseFromString(bytes)) return;
    uint64_t& mark = marks_[KeyOf(record)].log_offset[record.is_stderr()];
    mark = std::max(mark, record.offset() + record.text().size());
  } else if (kind == SpoolKind::kAck) {
    const auto position = DecodeSpoolPosition(payload);
    if (position.has_value()) acknowledged_ = std::max(acknowledged_, *position);
  }
}

absl::StatusOr<std::string> Spool::ReadBytes(uint64_t segment, uint64_t offset, uint64_t bytes) {
  std::string buffer(bytes, '\0');
  MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                          fs_.ReadAt(Path(segment), offset, buffer.data(), buffer.size()));
  buffer.resize(got);
  return buffer;
}

absl::StatusOr<SpoolBatch> Spool::Read(SpoolPosition from, size_t max_records, size_t max_bytes) {
  SpoolBatch batch;
  batch.end = std::max(from, acknowledged_);
  if (batch.end.segment < segments_.begin()->first) batch.end = {segments_.begin()->first, 0};
  size_t bytes_taken = 0;
  for (auto it = segments_.lower_bound(batch.end.segment); it != segments_.end(); ++it) {
    const auto [segment, size] = *it;
    uint64_t offset = segment == batch.end.segment ? batch.end.offset : 0;
    offset = std::max<uint64_t>(offset, std::min<uint64_t>(size, kSpoolMagic.size()));
    while (offset < size && batch.count < max_records && bytes_taken < max_bytes) {
      MUSTER_ASSIGN_OR_RETURN(std::string bytes,
                              ReadBytes(segment, offset, std::min(size - offset, kSpoolReadBytes)));
      if (!DecodeSpoolRecord(bytes).has_value()) {
        // One record larger than a read, or a place that broke since it was written.
        MUSTER_ASSIGN_OR_RETURN(bytes, ReadBytes(segment, offset, size - offset));
      }
      absl::string_view rest = bytes;
      const uint64_t begin = offset;
      while (batch.count < max_records && bytes_taken < max_bytes) {
        const auto record = DecodeSpoolRecord(rest);
        if (!record.has_value()) break;
        rest.remove_prefix(record->total_bytes);
        offset += record->total_bytes;
        if (!IsForController(record->kind)) continue;
        if (!AddToBatch(*record, batch.records)) {
          Log(LogLevel::kError, "spool_record_unreadable",
              {{"segment", Path(segment)}, {"offset", offset}});
          continue;
        }
        ++batch.count;
        bytes_taken += record->total_bytes;
      }
      if (offset == begin) {
        Log(LogLevel::kError, "spool_segment_broken",
            {{"segment", Path(segment)}, {"offset", offset}});
        offset = size;
      }
    }
    batch.end = {segment, offset};
    if (offset < size) break;
  }
  return batch;
}

uint64_t Spool::pending_bytes() const {
  if (!HasUnacknowledged()) return 0;
  uint64_t bytes = 0;
  for (auto it = segments_.lower_bound(acknowledged_.segment); it != segments_.end(); ++it) {
    const uint64_t done = it->first == acknowledged_.segment ? acknowledged_.offset : 0;
    bytes += it->second - std::min(it->second, done);
  }
  return bytes;
}

void Spool::Acknowledge(SpoolPosition position) {
  if (position <= acknowledged_) return;
  acknowledged_ = position;
  if (file_ != nullptr) {
    // Lost with a full disk, the note only means that some records are sent twice after a restart.
    const absl::Status status =
        WriteRaw(EncodeSpoolRecord(SpoolKind::kAck, EncodeSpoolPosition(position)));
    if (!status.ok())
      Log(LogLevel::kWarning, "spool_ack_unwritten", {{"error", status.ToString()}});
  }
  TrimAcknowledged();
}

void Spool::Abandon() {
  gaps_.clear();
  Acknowledge(end());
}

void Spool::TrimAcknowledged() {
  while (segments_.size() > 1) {
    const auto [segment, size] = *segments_.begin();
    const bool delivered =
        acknowledged_ >= SpoolPosition{segment, size} || last_record_end_ <= acknowledged_;
    if (!delivered) return;
    RemoveSegment(segment);
  }
}

void Spool::RemoveSegment(uint64_t segment) {
  if (const absl::Status status = fs_.RemoveFile(Path(segment)); !status.ok()) {
    Log(LogLevel::kWarning, "spool_segment_not_removed", {{"error", status.ToString()}});
  }
  total_bytes_ -= segments_[segment];
  segments_.erase(segment);
}

uint64_t Spool::MetricMark(const RankKey& key) const {
  const auto it = marks_.find(key);
  return it == marks_.end() ? 0 : it->second.metric_seq;
}

uint64_t Spool::LogMark(const RankKey& key, bool is_stderr) const {
  const auto it = marks_.find(key);
  return it == marks_.end() ? 0 : it->second.log_offset[is_stderr];
}

void Spool::Forget(const RankKey& key) { marks_.erase(key); }

std::vector<RankKey> Spool::MarkedRanks() const {
  std::vector<RankKey> keys;
  for (const auto& [key, marks] : marks_) keys.push_back(key);
  return keys;
}

}  // namespace muster::worker
