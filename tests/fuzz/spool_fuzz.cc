// The agent's spool over segments of any bytes: it opens, what is put in afterwards comes out once
// and in its order until it is acknowledged, and another agent that opens it finds the same.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_file_system.h"
#include "tests/fuzz/message_builder.h"
#include "worker/agent/telemetry/spool.h"

namespace {

namespace mw = ::muster::worker;
namespace v1 = ::muster::v1;
using ::muster::testing::FuzzInput;

constexpr char kFolder[] = "/spool";
constexpr uint64_t kSegmentBytes = 512;
// Far above what an input makes: nothing is dropped for want of room.
constexpr uint64_t kMaxBytes = 1 << 20;
constexpr int kMostSteps = 40;

[[noreturn]] void Broken(const std::string& what) {
  ::fprintf(stderr, "BROKEN: %s\n", what.c_str());
  ::abort();
}

// A record of whatever the input says, whole and with its checksum, or bytes that are none.
std::string SomeRecord(FuzzInput& input) {
  const auto kind = static_cast<mw::SpoolKind>(input.Below(8));
  if (input.Chance(24)) return input.Bytes(input.Byte());
  std::string payload;
  switch (kind) {
    case mw::SpoolKind::kMetrics:
    case mw::SpoolKind::kMetricMark: {
      v1::MetricRecord metrics;
      muster::testing::FillMessage(input, metrics);
      payload = metrics.SerializeAsString();
      break;
    }
    case mw::SpoolKind::kLog:
    case mw::SpoolKind::kLogMark: {
      v1::LogRecord log;
      muster::testing::FillMessage(input, log);
      payload = log.SerializeAsString();
      break;
    }
    case mw::SpoolKind::kGap: {
      v1::GapRecord gap;
      muster::testing::FillMessage(input, gap);
      payload = gap.SerializeAsString();
      break;
    }
    case mw::SpoolKind::kAck:
      payload = mw::EncodeSpoolPosition({input.Chance(64) ? input.Word() : input.Below(4),
                                         input.Chance(64) ? input.Word() : input.Below(200)});
      break;
    default:
      payload = input.Bytes(input.Byte());
  }
  return mw::EncodeSpoolRecord(kind, payload);
}

// An agent that finds a segment with one of the last numbers runs out of them, and says so; below
// there are more than an input can use up.
uint64_t SegmentNumber(uint64_t word) {
  constexpr uint64_t kUsedAtMost = 1000;
  const bool near_the_last =
      word <= mw::kMaxSpoolSegment && mw::kMaxSpoolSegment - word < kUsedAtMost;
  return near_the_last ? word - kUsedAtMost : word;
}

void PlantSegments(FuzzInput& input, muster::testing::MemoryFileSystem& fs) {
  const uint32_t count = input.Below(4);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t number = input.Chance(32) ? SegmentNumber(input.Word()) : i + 1;
    std::string bytes = input.Chance(240) ? std::string(mw::kSpoolMagic) : "";
    for (uint32_t record = input.Below(6); record > 0; --record) bytes += SomeRecord(input);
    if (input.Chance(48) && !bytes.empty()) bytes.resize(bytes.size() - 1);
    fs.files()[absl::StrCat(kFolder, "/", mw::SpoolSegmentName(number))] = bytes;
  }
  if (input.Chance(16)) fs.files()[absl::StrCat(kFolder, "/stranger")] = input.Bytes(8);
}

// The spool and what must come out of it.
class World {
 public:
  explicit World(FuzzInput& input) {
    PlantSegments(input, fs_);
    Open();
    // What lay there before is nobody's business here.
    ReadAll();
    if (input.Chance(128)) spool_->Acknowledge(read_to_);
  }

  void Step(FuzzInput& input) {
    switch (input.Below(6)) {
      case 0:
      case 1:
        return AppendMetric(input);
      case 2:
        return AppendLog(input);
      case 3: {
        CheckUnread();
        spool_->Acknowledge(read_to_);
        waiting_.clear();
        return;
      }
      case 4:
        return Reopen();
      default:
        return CheckUnread();
    }
  }
  void Finish() {
    CheckUnread();
    Reopen();
  }

 private:
  void Open() {
    auto spool = mw::Spool::Open(
        fs_, {.directory = kFolder, .max_bytes = kMaxBytes, .segment_bytes = kSegmentBytes});
    if (!spool.ok()) Broken("the spool does not open: " + spool.status().ToString());
    spool_ = *std::move(spool);
    read_to_ = spool_->acknowledged();
  }

  // As an agent that restarts: marks and what is not acknowledged are still there.
  void Reopen() {
    std::vector<std::pair<uint64_t, uint64_t>> marks;
    for (uint32_t rank = 0; rank < 3; ++rank)
      marks.emplace_back(spool_->MetricMark(Key(rank)), spool_->LogMark(Key(rank), false));
    spool_.reset();
    Open();
    for (uint32_t rank = 0; rank < 3; ++rank) {
      if (spool_->MetricMark(Key(rank)) != marks[rank].first ||
          spool_->LogMark(Key(rank), false) != marks[rank].second) {
        Broken("a restart changed a mark");
      }
    }
    // What was read and not acknowledged comes again.
    unread_from_ = 0;
    CheckUnread();
  }

  // Of ranks that what lay there may speak of as well.
  static mw::RankKey Key(uint32_t rank) { return {1, 1, 1, rank}; }

  void AppendMetric(FuzzInput& input) {
    v1::MetricRecord record;
    mw::SetKey(Key(input.Below(3)), record);
    const uint64_t mark = spool_->MetricMark(mw::KeyOf(record));
    record.set_seq(mark + 1 + input.Below(2));
    if (record.seq() <= mark) return;  // the numbers are used up
    if (!spool_->Append(record).ok()) Broken("a metric is refused");
    waiting_.push_back(record.SerializeAsString());
  }

  void AppendLog(FuzzInput& input) {
    v1::LogRecord record;
    mw::SetKey(Key(input.Below(3)), record);
    record.set_offset(spool_->LogMark(mw::KeyOf(record), false));
    record.set_text(std::string(1 + input.Below(80), 'x'));
    if (record.offset() + record.text().size() < record.offset()) return;
    if (!spool_->Append(record).ok()) Broken("a log is refused");
    waiting_.push_back(record.SerializeAsString());
  }

  // Everything from where reading stands; records of ours in their order.
  std::vector<std::string> ReadAll() {
    std::vector<std::string> mine;
    while (true) {
      const auto batch = spool_->Read(read_to_, /*max_records=*/3, /*max_bytes=*/4096);
      if (!batch.ok()) Broken("the spool cannot be read: " + batch.status().ToString());
      if (batch->end < read_to_) Broken("reading goes backwards");
      const bool done = batch->count == 0 && batch->end == read_to_;
      for (const auto& record : batch->records.metrics())
        mine.push_back(record.SerializeAsString());
      for (const auto& record : batch->records.logs()) mine.push_back(record.SerializeAsString());
      read_to_ = batch->end;
      if (done) return mine;
    }
  }

  // Metrics and logs come in lists of their own: their order is looked at within each kind.
  void CheckUnread() {
    std::multiset<std::string> got;
    for (std::string& record : ReadAll()) got.insert(std::move(record));
    for (size_t i = unread_from_; i < waiting_.size(); ++i) {
      const auto found = got.find(waiting_[i]);
      if (found == got.end()) Broken("a record that was taken does not come out");
      got.erase(found);
    }
    for (size_t i = unread_from_; i < waiting_.size(); ++i) {
      if (got.count(waiting_[i]) > 0) Broken("a record comes twice");
    }
    unread_from_ = waiting_.size();
  }

  muster::testing::MemoryFileSystem fs_;
  std::unique_ptr<mw::Spool> spool_;
  mw::SpoolPosition read_to_;
  std::vector<std::string> waiting_;  // taken, and not acknowledged
  size_t unread_from_ = 0;            // of them: not read yet
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  muster::SetLogLevel(muster::LogLevel::kError);
  FuzzInput input(data, size);
  World world(input);
  for (int step = 0; step < kMostSteps && !input.empty(); ++step) world.Step(input);
  world.Finish();
  return 0;
}
