#include "worker/agent/telemetry/spool.h"

#include <filesystem>
#include <fstream>

#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::worker {
namespace {

using ::muster::testing::FaultyFileSystem;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;

constexpr RankKey kKey{7, 1, 1, 0};

v1::MetricRecord Metric(uint64_t seq, size_t name_bytes = 4, RankKey key = kKey) {
  v1::MetricRecord record;
  SetKey(key, record);
  record.set_seq(seq);
  v1::MetricPoint& point = *record.add_points();
  point.set_name(std::string(name_bytes, 'n'));
  point.set_step(static_cast<int64_t>(seq));
  return record;
}

v1::LogRecord LogText(uint64_t offset, const std::string& text, bool is_stderr = false) {
  v1::LogRecord record;
  SetKey(kKey, record);
  record.set_offset(offset);
  record.set_text(text);
  record.set_is_stderr(is_stderr);
  return record;
}

class SpoolTest : public ::testing::Test {
 protected:
  std::unique_ptr<Spool> Open(uint64_t max_bytes = 1 << 20, uint64_t segment_bytes = 1 << 16) {
    auto spool = Spool::Open(fs_, {dir_ / "spool", max_bytes, segment_bytes});
    EXPECT_OK(spool);
    return *std::move(spool);
  }
  // Everything from `from` on.
  static v1::BulkBatch ReadAll(Spool& spool, SpoolPosition from = {}) {
    auto batch = spool.Read(from, 1'000'000, 1 << 30);
    EXPECT_OK(batch);
    return batch->records;
  }
  std::string NewestSegment() {
    std::string newest;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / "spool")) {
      newest = std::max(newest, entry.path().string());
    }
    return newest;
  }
  uint64_t BytesOnDisk() {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / "spool"))
      bytes += entry.file_size();
    return bytes;
  }

  TempDir dir_;
  FaultyFileSystem fs_{PosixFileSystem()};
};

TEST_F(SpoolTest, GivesRecordsBackInOrderAndInBatches) {
  auto spool = Open();
  for (uint64_t seq = 1; seq <= 250; ++seq) ASSERT_OK(spool->Append(Metric(seq)));
  uint64_t expected = 1;
  SpoolPosition at;
  for (const size_t count : {100u, 100u, 50u, 0u}) {
    ASSERT_OK_AND_ASSIGN(const SpoolBatch batch, spool->Read(at, 100, 1 << 20));
    EXPECT_EQ(batch.count, count);
    for (const auto& record : batch.records.metrics()) EXPECT_EQ(record.seq(), expected++);
    at = batch.end;
  }
}

TEST_F(SpoolTest, ABatchIsBoundedInBytesButNeverEmptyWhileThereIsSomething) {
  auto spool = Open();
  for (uint64_t seq = 1; seq <= 10; ++seq) ASSERT_OK(spool->Append(Metric(seq, 10'000)));
  ASSERT_OK_AND_ASSIGN(const SpoolBatch batch, spool->Read({}, 100, 1));
  EXPECT_EQ(batch.count, 1u);
}

TEST_F(SpoolTest, ARecordLargerThanOneReadComesBackWhole) {
  auto spool = Open(64 << 20, 4 << 20);
  ASSERT_OK(spool->Append(Metric(1, 1 << 20)));
  ASSERT_OK(spool->Append(Metric(2)));
  const v1::BulkBatch all = ReadAll(*spool);
  ASSERT_EQ(all.metrics_size(), 2);
  EXPECT_EQ(all.metrics(0).points(0).name().size(), 1u << 20);
}

TEST_F(SpoolTest, WhatWasSpooledOnceIsNotSpooledAgain) {
  auto spool = Open();
  ASSERT_OK(spool->Append(Metric(1)));
  ASSERT_OK(spool->Append(Metric(1)));
  ASSERT_OK(spool->Append(LogText(0, "hello\n")));
  ASSERT_OK(spool->Append(LogText(0, "hello\n")));
  const v1::BulkBatch all = ReadAll(*spool);
  EXPECT_EQ(all.metrics_size(), 1);
  EXPECT_EQ(all.logs_size(), 1);
}

TEST_F(SpoolTest, RecordsAndMarksSurviveARestart) {
  {
    auto spool = Open();
    ASSERT_OK(spool->Append(Metric(5)));
    ASSERT_OK(spool->Append(LogText(0, "out\n")));
    ASSERT_OK(spool->Append(LogText(0, "error\n", true)));
  }
  auto spool = Open();
  EXPECT_EQ(spool->MetricMark(kKey), 5u);
  EXPECT_EQ(spool->LogMark(kKey, false), 4u);
  EXPECT_EQ(spool->LogMark(kKey, true), 6u);
  const v1::BulkBatch all = ReadAll(*spool);
  EXPECT_EQ(all.metrics_size(), 1);
  EXPECT_EQ(all.logs_size(), 2);
}

TEST_F(SpoolTest, AcknowledgedRecordsDoNotComeBackAfterARestartButTheirMarksDo) {
  {
    auto spool = Open();
    for (uint64_t seq = 1; seq <= 3; ++seq) ASSERT_OK(spool->Append(Metric(seq)));
    ASSERT_OK_AND_ASSIGN(const SpoolBatch batch, spool->Read({}, 2, 1 << 20));
    spool->Acknowledge(batch.end);
    EXPECT_TRUE(spool->HasUnacknowledged());
  }
  auto spool = Open();
  const v1::BulkBatch rest = ReadAll(*spool);
  ASSERT_EQ(rest.metrics_size(), 1);
  EXPECT_EQ(rest.metrics(0).seq(), 3u);
  spool->Acknowledge(spool->end());
  EXPECT_FALSE(spool->HasUnacknowledged());
  EXPECT_EQ(spool->pending_bytes(), 0u);
  spool = Open();
  spool = Open();  // the marks pass from head to head
  EXPECT_EQ(spool->MetricMark(kKey), 3u);
  EXPECT_EQ(ReadAll(*spool).metrics_size(), 0);
}

TEST_F(SpoolTest, ATailTornAtAnyByteLosesOnlyItself) {
  std::string whole;
  {
    auto spool = Open();
    ASSERT_OK(spool->Append(Metric(1)));
    ASSERT_OK(spool->Append(Metric(2)));
  }
  const std::string path = NewestSegment();
  const uint64_t full = std::filesystem::file_size(path);
  const uint64_t record =
      EncodeSpoolRecord(SpoolKind::kMetrics, Metric(2).SerializeAsString()).size();
  for (uint64_t cut = 1; cut <= record; ++cut) {
    TempDir copy;
    std::filesystem::copy(dir_ / "spool", copy / "spool");
    std::filesystem::resize_file(copy / "spool" + path.substr(path.rfind('/')), full - cut);
    auto spool = Spool::Open(fs_, {copy / "spool", 1 << 20, 1 << 16});
    ASSERT_OK(spool);
    EXPECT_EQ((*spool)->MetricMark(kKey), 1u) << cut;
    ASSERT_OK((*spool)->Append(Metric(2)));
    EXPECT_EQ(ReadAll(**spool).metrics_size(), 2) << cut;
  }
}

TEST_F(SpoolTest, AFlippedBitEndsItsSegmentOnly) {
  {
    auto spool = Open();
    ASSERT_OK(spool->Append(Metric(1)));
    ASSERT_OK(spool->Append(Metric(2)));
  }
  {
    std::fstream file(NewestSegment(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-3, std::ios::end);
    file.put('\x55');
  }
  auto spool = Open();
  ASSERT_OK(spool->Append(Metric(3)));
  const v1::BulkBatch all = ReadAll(*spool);
  ASSERT_EQ(all.metrics_size(), 2);
  EXPECT_EQ(all.metrics(0).seq(), 1u);
  EXPECT_EQ(all.metrics(1).seq(), 3u);
}

TEST_F(SpoolTest, StaysWithinItsBoundAndRecordsTheGap) {
  constexpr uint64_t kMax = 64 << 10;
  auto spool = Open(kMax, 8 << 10);
  const std::string line(500, 'x');
  for (uint64_t seq = 1; seq <= 500; ++seq) {
    ASSERT_OK(spool->Append(Metric(seq, 500)));
    ASSERT_OK(spool->Append(LogText((seq - 1) * line.size(), line)));
    EXPECT_LE(BytesOnDisk(), kMax + (4 << 10));
  }
  const v1::BulkBatch all = ReadAll(*spool);
  uint64_t first_kept = all.metrics(0).seq();
  EXPECT_GT(first_kept, 1u);
  EXPECT_EQ(all.metrics(all.metrics_size() - 1).seq(), 500u);
  EXPECT_EQ(all.metrics_size(), static_cast<int>(500 - first_kept + 1));
  uint64_t lost_to = 0;
  uint64_t lost_log_bytes = 0;
  for (const v1::GapRecord& gap : all.gaps()) {
    EXPECT_EQ(KeyOf(gap), kKey);
    lost_to = std::max(lost_to, gap.last_seq());
    lost_log_bytes += gap.log_bytes();
  }
  EXPECT_EQ(lost_to, first_kept - 1);
  uint64_t kept_log_bytes = 0;
  for (const v1::LogRecord& log : all.logs()) kept_log_bytes += log.text().size();
  EXPECT_EQ(lost_log_bytes + kept_log_bytes, 500 * line.size());
  EXPECT_GT(spool->dropped_records(), 0u);
}

TEST_F(SpoolTest, DeliveredRecordsLeaveNoGapWhenTheirSegmentGoes) {
  auto spool = Open(64 << 10, 8 << 10);
  for (uint64_t seq = 1; seq <= 1000; ++seq) {
    ASSERT_OK(spool->Append(Metric(seq, 500)));
    spool->Acknowledge(spool->end());
  }
  EXPECT_EQ(ReadAll(*spool).gaps_size(), 0);
  EXPECT_EQ(spool->dropped_records(), 0u);
}

TEST_F(SpoolTest, AFullDiskIsToldAndLosesNothingElse) {
  auto spool = Open();
  ASSERT_OK(spool->Append(Metric(1)));
  fs_.FailAt(1, absl::ResourceExhaustedError("disk full"), 2);
  EXPECT_THAT(spool->Append(Metric(2)), StatusIs(absl::StatusCode::kResourceExhausted));
  spool->RecordLoss(Metric(2));
  // The next try may not even make a new segment.
  EXPECT_THAT(spool->Append(Metric(3)), StatusIs(absl::StatusCode::kResourceExhausted));
  ASSERT_OK(spool->Append(Metric(3)));
  const v1::BulkBatch all = ReadAll(*spool);
  ASSERT_EQ(all.metrics_size(), 2);
  EXPECT_EQ(all.metrics(0).seq(), 1u);
  EXPECT_EQ(all.metrics(1).seq(), 3u);
  ASSERT_EQ(all.gaps_size(), 1);
  EXPECT_EQ(all.gaps(0).first_seq(), 2u);
  EXPECT_EQ(all.gaps(0).last_seq(), 2u);
  spool = Open();
  EXPECT_EQ(ReadAll(*spool).metrics_size(), 2);
}

TEST_F(SpoolTest, AFullDiskIsNotFilledWithEmptySegments) {
  auto spool = Open();
  ASSERT_OK(spool->Append(Metric(1)));
  const auto segments = [this] {
    return std::distance(std::filesystem::directory_iterator(dir_ / "spool"), {});
  };
  ASSERT_EQ(segments(), 1);
  // The record, and then, of each new segment, its file may be made but nothing written in it.
  fs_.FailAt(1, absl::ResourceExhaustedError("disk full"));
  EXPECT_THAT(spool->Append(Metric(2)), StatusIs(absl::StatusCode::kResourceExhausted));
  for (int i = 0; i < 1000; ++i) {
    fs_.FailAt(2 + i % 2, absl::ResourceExhaustedError("disk full"));
    ASSERT_THAT(spool->Append(Metric(2)), StatusIs(absl::StatusCode::kResourceExhausted));
    ASSERT_EQ(segments(), 1) << i;
  }
  fs_.FailAt(1, absl::OkStatus());
  ASSERT_OK(spool->Append(Metric(2)));
  EXPECT_EQ(segments(), 2);
  EXPECT_EQ(ReadAll(*spool).metrics_size(), 2);
  EXPECT_EQ(ReadAll(*Open()).metrics_size(), 2);
}

TEST_F(SpoolTest, AFullDiskDoesNotKeepItFromOpening) {
  ASSERT_OK(Open()->Append(Metric(1)));
  // Its folder, the new segment, and what should stand in that.
  fs_.FailAt(3, absl::ResourceExhaustedError("disk full"));
  auto spool = Open();
  EXPECT_EQ(ReadAll(*spool).metrics_size(), 1);
  ASSERT_OK(spool->Append(Metric(2)));
  EXPECT_EQ(ReadAll(*spool).metrics_size(), 2);
  spool->Acknowledge(spool->end());
  EXPECT_FALSE(spool->HasUnacknowledged());
  EXPECT_EQ(ReadAll(*Open()).metrics_size(), 0);
}

TEST_F(SpoolTest, AFullDiskAtAnyCallLosesNothingThatWasTaken) {
  constexpr int kMaxOperations = 1000;
  constexpr uint64_t kRecords = 40;
  int n = 1;
  for (; n < kMaxOperations; ++n) {
    std::filesystem::remove_all(dir_ / "spool");
    auto spool = Open(1 << 20, 4 << 10);
    const int before = fs_.operations();
    fs_.FailAt(n, absl::ResourceExhaustedError("disk full"));
    // Over several segments, of which one goes, and over a second life.
    for (uint64_t seq = 1; seq <= kRecords; ++seq) {
      absl::Status taken = spool->Append(Metric(seq, 500));
      if (!taken.ok()) {
        EXPECT_THAT(taken, StatusIs(absl::StatusCode::kResourceExhausted)) << n;
        taken = spool->Append(Metric(seq, 500));
      }
      ASSERT_OK(taken) << n;
      if (seq == kRecords / 2) {
        auto next = Spool::Open(fs_, {dir_ / "spool", 1 << 20, 4 << 10});
        if (!next.ok()) next = Spool::Open(fs_, {dir_ / "spool", 1 << 20, 4 << 10});
        ASSERT_OK(next) << n;
        spool = *std::move(next);
      }
      if (seq == kRecords / 4) {
        ASSERT_OK_AND_ASSIGN(const SpoolBatch first, spool->Read({}, kRecords / 4, 1 << 30));
        spool->Acknowledge(first.end);
      }
    }
    const bool failed = fs_.operations() - before >= n;
    fs_.FailAt(1, absl::OkStatus());
    for (const bool again : {false, true}) {
      if (again) spool = Open(1 << 20, 4 << 10);
      const v1::BulkBatch all = ReadAll(*spool);
      ASSERT_GE(all.metrics_size(), static_cast<int>(kRecords * 3 / 4)) << n;
      uint64_t expected = kRecords + 1 - static_cast<uint64_t>(all.metrics_size());
      for (const auto& record : all.metrics()) EXPECT_EQ(record.seq(), expected++) << n;
      EXPECT_EQ(all.gaps_size(), 0) << n;
      EXPECT_EQ(spool->MetricMark(kKey), kRecords) << n;
    }
    if (!failed) break;
  }
  EXPECT_GT(n, static_cast<int>(kRecords));
  EXPECT_LT(n, kMaxOperations);
}

// A restart would not read a segment of a higher number, and forget the marks in it.
TEST_F(SpoolTest, NoSegmentIsBegunThatARestartWouldNotRead) {
  const std::string folder = dir_ / "spool";
  ASSERT_OK(fs_.MakeDirectories(folder));
  ASSERT_OK(WriteFileAtomically(fs_, folder + "/" + SpoolSegmentName(kMaxSpoolSegment),
                                kSpoolMagic));
  auto spool = *Spool::Open(fs_, {folder, 1 << 20, 1 << 16});
  const absl::Status appended = spool->Append(Metric(1));
  EXPECT_THAT(appended, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(appended.message(), ::testing::HasSubstr("4611686018427387904.spool"));
  EXPECT_EQ(spool->MetricMark(kKey), 0u);
}

TEST_F(SpoolTest, ABoundBelowFourSegmentsIsRefused) {
  EXPECT_THAT(Spool::Open(fs_, {dir_ / "spool", 100, 50}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(SpoolTest, AFolderThatCannotBeMadeIsTold) {
  fs_.FailAt(1, absl::PermissionDeniedError("no"));
  EXPECT_THAT(Spool::Open(fs_, {dir_ / "spool", 1 << 20, 1 << 16}),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST(SpoolFormat, NamesSortByNumberAndNothingElseIsASegment) {
  EXPECT_LT(SpoolSegmentName(9), SpoolSegmentName(10));
  EXPECT_EQ(ParseSpoolSegmentName(SpoolSegmentName(12)), 12u);
  EXPECT_EQ(ParseSpoolSegmentName("12.spool"), std::nullopt);
  EXPECT_EQ(ParseSpoolSegmentName("lock"), std::nullopt);
}

TEST(RankKey, FolderNamesGoThereAndBack) {
  const RankKey key{42, 3, 1, 11};
  EXPECT_EQ(RankFolderName(key), "job-42.a3.g1.r11");
  EXPECT_EQ(ParseRankFolderName("job-42.a3.g1.r11"), key);
  for (const char* name : {"job-42.a3.g1", "job-42.a3.g1.r011", "job-x.a3.g1.r1", "42.a3.g1.r1",
                           "job-42.a3.g1.r1.x"}) {
    EXPECT_EQ(ParseRankFolderName(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace muster::worker
