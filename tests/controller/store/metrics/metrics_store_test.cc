#include "controller/store/metrics/metrics_store.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/store/metrics/metrics_schema.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

PointRecord Record(const RankKey& key, uint64_t seq, int64_t step, double loss) {
  return {key, seq, {{"loss", step, 1000 + step, loss}}};
}

LogChunk Chunk(const RankKey& key, uint64_t offset, std::string text) {
  return {key, false, offset, std::move(text)};
}

LogChunk ChunkAt(int64_t written_ms, const RankKey& key, uint64_t offset, std::string text) {
  return {key, false, offset, std::move(text), written_ms};
}

class MetricsStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }

  void Open(uint64_t max_bytes = 0) {
    store_.reset();
    auto store = MetricsStore::Open(dir_ / "metrics.db", max_bytes);
    ASSERT_OK(store);
    store_ = *std::move(store);
  }
  absl::Status Append(const MetricsBatch& batch) { return store_->Append({&batch}, counts_); }
  absl::Status Points(std::vector<PointRecord> records) {
    return Append({std::move(records), {}, {}});
  }
  absl::Status Logs(std::vector<LogChunk> chunks) { return Append({{}, std::move(chunks), {}}); }

  // One page of points or logs, in as many turns as it takes, which are counted.
  template <typename Reading>
  auto ReadPage(Reading reading) -> absl::StatusOr<decltype(reading.TakePage())> {
    for (turns_ = 1;; ++turns_) {
      const absl::StatusOr<bool> whole = store_->ReadOn(reading);
      if (!whole.ok()) return whole.status();
      if (*whole) return reading.TakePage();
    }
  }

  // "name@step=value" of every page.
  std::vector<std::string> Read(PointQuery query) {
    std::vector<std::string> all;
    if (query.page_size == 0) query.page_size = 1000;
    do {
      absl::StatusOr<PointPage> page = ReadPage(PointReading(query));
      EXPECT_OK(page);
      if (!page.ok()) break;
      EXPECT_LE(page->points.size(), query.page_size);
      for (const Point& p : page->points)
        all.push_back(absl::StrCat(p.name, "@", p.step, "=", p.value));
      query.page_token = page->next_page_token;
    } while (!query.page_token.empty());
    return all;
  }

  std::string ReadText(const LogQuery& query, uint64_t max_bytes = 1 << 20) {
    std::string text;
    LogPosition position;
    while (true) {
      absl::StatusOr<LogPage> page = ReadPage(LogReading(query, position, max_bytes));
      EXPECT_OK(page);
      if (!page.ok() || page->chunks.empty()) return text;
      for (const StoredLogChunk& chunk : page->chunks) text += chunk.chunk.text;
      position = page->position;
    }
  }

  std::vector<std::string> JobsStored() {
    const auto jobs = store_->StoredJobs();
    EXPECT_OK(jobs);
    std::vector<std::string> texts;
    for (const MetricsStore::StoredJob& job : *jobs) {
      texts.push_back(absl::StrCat(job.job_id, job.has_rows ? "" : " without rows"));
    }
    return texts;
  }

  TempDir dir_;
  std::unique_ptr<MetricsStore> store_;
  IngestCounts counts_;
  int turns_ = 0;  // of the last page
  const RankKey rank0_{1, 1, 1, 0};
};

TEST_F(MetricsStoreTest, PointsComeBackByNameThenStep) {
  PointRecord both = Record(rank0_, 1, 10, 2.5);
  both.points.push_back({"accuracy", 10, 1010, 0.5});
  ASSERT_OK(Points({both, Record(rank0_, 2, 20, 2.0)}));
  ASSERT_OK(Points({Record(rank0_, 3, 30, 1.5)}));
  EXPECT_THAT(Read({.job_id = 1}),
              ElementsAre("accuracy@10=0.5", "loss@10=2.5", "loss@20=2", "loss@30=1.5"));
  EXPECT_THAT(Read({.job_id = 1, .names = {"loss"}, .from_step = 20, .to_step = 20}),
              ElementsAre("loss@20=2"));
  EXPECT_THAT(Read({.job_id = 1, .rank = 1}), IsEmpty());
  EXPECT_THAT(Read({.job_id = 2}), IsEmpty());
}

TEST_F(MetricsStoreTest, ARepeatedRecordIsStoredOnceEvenAfterAReopen) {
  ASSERT_OK(Points({Record(rank0_, 1, 10, 1), Record(rank0_, 2, 20, 2)}));
  Open();
  ASSERT_OK(Points({Record(rank0_, 2, 20, 2), Record(rank0_, 3, 30, 3)}));
  EXPECT_EQ(counts_.duplicate_records, 1u);
  EXPECT_EQ(counts_.points, 3u);
  EXPECT_EQ(counts_.gaps, 0u);
  EXPECT_THAT(Read({.job_id = 1}), ElementsAre("loss@10=1", "loss@20=2", "loss@30=3"));
}

TEST_F(MetricsStoreTest, AHoleInTheSequenceIsAGap) {
  ASSERT_OK(Points({Record(rank0_, 1, 10, 1), Record(rank0_, 5, 50, 5)}));
  EXPECT_EQ(counts_.gaps, 1u);
  // The agent's own account of the same hole adds nothing; of a further one, it does.
  ASSERT_OK(Append({{}, {}, {{rank0_, 2, 4, 0}}}));
  EXPECT_EQ(counts_.gaps, 1u);
  ASSERT_OK(Append({{}, {}, {{rank0_, 6, 9, 77}}}));
  EXPECT_EQ(counts_.gaps, 3u);
  ASSERT_OK(Points({Record(rank0_, 10, 100, 10)}));
  EXPECT_EQ(counts_.gaps, 3u);
}

TEST_F(MetricsStoreTest, ALaterAttemptSupersedesFromItsFirstStep) {
  const RankKey second{1, 2, 1, 0};
  const RankKey third{1, 3, 1, 0};
  ASSERT_OK(Points({Record(rank0_, 1, 10, 1), Record(rank0_, 2, 20, 1), Record(rank0_, 3, 30, 1)}));
  ASSERT_OK(Points({Record(second, 1, 20, 2), Record(second, 2, 30, 2), Record(second, 3, 40, 2)}));
  EXPECT_THAT(Read({.job_id = 1}), ElementsAre("loss@10=1", "loss@20=2", "loss@30=2", "loss@40=2"));
  // What the fenced rank still sends changes nothing.
  ASSERT_OK(Points({Record(rank0_, 4, 40, 1), Record(rank0_, 5, 50, 1)}));
  EXPECT_THAT(Read({.job_id = 1}), ElementsAre("loss@10=1", "loss@20=2", "loss@30=2", "loss@40=2"));
  // A third attempt that goes back further hides the second one altogether.
  ASSERT_OK(Points({Record(third, 1, 15, 3)}));
  EXPECT_THAT(Read({.job_id = 1}), ElementsAre("loss@10=1", "loss@15=3"));
}

TEST_F(MetricsStoreTest, AnotherRankOfALaterAttemptSupersedesToo) {
  const RankKey rank1_of_first{1, 1, 1, 1};
  const RankKey rank0_of_second{1, 2, 1, 0};
  ASSERT_OK(Points({Record(rank1_of_first, 1, 10, 1), Record(rank1_of_first, 2, 20, 1),
                    Record(rank1_of_first, 3, 30, 1)}));
  ASSERT_OK(Points({Record(rank0_of_second, 1, 20, 2)}));
  EXPECT_THAT(Read({.job_id = 1, .rank = 1}), ElementsAre("loss@10=1", "loss@20=1"));
}

// It was stopped after the last step, and came back for the test.
TEST_F(MetricsStoreTest, WhatALaterAttemptAddsToAStepHidesNothingOfIt) {
  const RankKey second{1, 2, 1, 0};
  ASSERT_OK(Points({Record(rank0_, 1, 10, 1), Record(rank0_, 2, 20, 1), Record(rank0_, 3, 30, 1)}));
  PointRecord added = Record(second, 1, 20, 2);
  added.points[0].name = "test_loss";
  ASSERT_OK(Points({added}));
  EXPECT_THAT(Read({.job_id = 1}), ElementsAre("loss@10=1", "loss@20=1", "test_loss@20=2"));
}

TEST_F(MetricsStoreTest, TheSameStepTwiceInOneAttemptIsOnePoint) {
  ASSERT_OK(Points({Record(rank0_, 1, 10, 1), Record(rank0_, 2, 10, 2)}));
  EXPECT_THAT(Read({.job_id = 1}), ElementsAre("loss@10=2"));
}

TEST_F(MetricsStoreTest, PagesOfAnySizeGiveTheSamePoints) {
  // Steps out of order over many rows, two names, two attempts.
  const RankKey second{1, 2, 1, 0};
  uint64_t seq = 0;
  for (const int64_t step : {5, 1, 3, 2, 9, 8, 7, 4}) {
    PointRecord record = Record(rank0_, ++seq, step, 1);
    record.points.push_back({"lr", step, 0, 0.5});
    ASSERT_OK(Points({record}));
  }
  ASSERT_OK(Points({Record(second, 1, 8, 2), Record(second, 2, 10, 2)}));
  const std::vector<std::string> all = Read({.job_id = 1});
  EXPECT_THAT(all, ElementsAre("loss@1=1", "loss@2=1", "loss@3=1", "loss@4=1", "loss@5=1",
                               "loss@7=1", "loss@8=2", "loss@10=2", "lr@1=0.5", "lr@2=0.5",
                               "lr@3=0.5", "lr@4=0.5", "lr@5=0.5", "lr@7=0.5", "lr@8=0.5"));
  for (uint32_t size = 1; size <= 16; ++size)
    EXPECT_EQ(Read({.job_id = 1, .page_size = size}), all) << size;
}

TEST_F(MetricsStoreTest, AForeignPageTokenIsRefused) {
  for (const char* token : {"x", "/", "x/loss", "-"}) {
    EXPECT_THAT(ReadPage(PointReading({.job_id = 1, .page_size = 1, .page_token = token})),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << token;
  }
}

TEST_F(MetricsStoreTest, ThinningKeepsTheFirstAndTheLast) {
  std::vector<PointRecord> records;
  for (int64_t step = 0; step < 5000; ++step) records.push_back(Record(rank0_, step + 1, step, 1));
  ASSERT_OK(Points(std::move(records)));
  for (const uint32_t most : {2u, 3u, 7u, 100u}) {
    auto page = ReadPage(PointReading({.job_id = 1, .page_size = 1000, .max_points = most}));
    ASSERT_OK(page);
    ASSERT_EQ(page->points.size(), most);
    EXPECT_EQ(page->points.front().step, 0);
    EXPECT_EQ(page->points.back().step, 4999);
    EXPECT_EQ(page->next_page_token, "");
  }
  EXPECT_EQ(Read({.job_id = 1, .page_size = 10000}).size(), 5000u);
  EXPECT_EQ(Read({.job_id = 1, .page_size = 10000, .max_points = 9000}).size(), 5000u);
}

// A long series of which each point comes with three others, and one point of a second name at
// each 10,000th step.
class LongSeriesTest : public MetricsStoreTest {
 protected:
  static constexpr int64_t kSteps = 200'000;

  void SetUp() override {
    MetricsStoreTest::SetUp();
    std::vector<PointRecord> records;
    for (int64_t step = 0; step < kSteps; ++step) {
      PointRecord record = Record(rank0_, static_cast<uint64_t>(step) + 1, step, 1);
      for (const char* other : {"a", "b", "c"}) record.points.push_back({other, step, step, 1});
      if (step % 10'000 == 0) record.points.push_back({"rare", step, step, 2});
      records.push_back(std::move(record));
    }
    ASSERT_OK(Points(std::move(records)));
  }
};

TEST_F(LongSeriesTest, IsThinnedInTurns) {
  auto page = ReadPage(
      PointReading({.job_id = 1, .names = {"loss"}, .page_size = 10'000, .max_points = 500}));
  ASSERT_OK(page);
  EXPECT_GE(turns_, 5);
  ASSERT_EQ(page->points.size(), 500u);
  EXPECT_EQ(page->points.front().step, 0);
  EXPECT_EQ(page->points.back().step, kSteps - 1);
  for (size_t i = 1; i < page->points.size(); ++i) {
    const int64_t apart = page->points[i].step - page->points[i - 1].step;
    EXPECT_GT(apart, 0);
    EXPECT_LE(apart, 2 * kSteps / 500);
  }
}

TEST_F(LongSeriesTest, APageOfARareMetricLooksThroughItInTurns) {
  auto page = ReadPage(PointReading({.job_id = 1, .names = {"rare"}, .page_size = 10'000}));
  ASSERT_OK(page);
  EXPECT_GE(turns_, 5);
  ASSERT_EQ(page->points.size(), size_t{kSteps / 10'000});
  EXPECT_EQ(page->points.back().step, kSteps - 10'000);
}

TEST_F(LongSeriesTest, AShortPageTakesOneTurnWhereverItBegins) {
  for (const int64_t from : {int64_t{0}, kSteps / 2, kSteps - 10}) {
    auto page = ReadPage(
        PointReading({.job_id = 1, .names = {"loss"}, .from_step = from, .page_size = 10}));
    ASSERT_OK(page);
    EXPECT_EQ(turns_, 1);
    ASSERT_EQ(page->points.size(), 10u);
    EXPECT_EQ(page->points.front().step, from);
  }
}

// What counts no steps reports all at step 0.
TEST_F(MetricsStoreTest, ManyRowsOfTheSameStepAreReadInTurns) {
  uint64_t seq = 0;
  std::vector<PointRecord> records;
  for (int i = 0; i < 600'000; ++i) {
    records.push_back({rank0_, ++seq, {{"loss", 0, i, static_cast<double>(i)}}});
  }
  ASSERT_OK(Points(std::move(records)));
  EXPECT_THAT(Read({.job_id = 1}), ElementsAre("loss@0=599999"));
  EXPECT_GE(turns_, 3);
}

TEST_F(MetricsStoreTest, BadNamesAndStepsAreRefusedAndTheRestIsKept) {
  PointRecord record = Record(rank0_, 1, 10, 1);
  for (const char* bad : {"", "a\nb", "\x1b[1m"}) record.points.push_back({bad, 10, 0, 1});
  record.points.push_back({std::string(129, 'a'), 10, 0, 1});
  record.points.push_back({"loss", -1, 0, 1});
  ASSERT_OK(Points({record}));
  EXPECT_EQ(counts_.refused_points, 5u);
  EXPECT_THAT(Read({.job_id = 1}), ElementsAre("loss@10=1"));
}

TEST_F(MetricsStoreTest, NamesAsPeopleGiveThemAreKept) {
  PointRecord record = Record(rank0_, 1, 10, 1);
  record.points = {{"train/loss", 10, 0, 1}, {"Loss", 10, 0, 2}, {"val.acc", 10, 0, 3}};
  record.points.push_back({std::string(128, 'a'), 10, 0, 4});
  ASSERT_OK(Points({record}));
  EXPECT_EQ(counts_.refused_points, 0u);
  EXPECT_THAT(Read({.job_id = 1, .names = {"train/loss"}}), ElementsAre("train/loss@10=1"));
  EXPECT_THAT(Read({.job_id = 1}), ::testing::SizeIs(4));
}

TEST_F(MetricsStoreTest, LogOffsetsAreTrimmedAndHolesRecorded) {
  ASSERT_OK(Logs({Chunk(rank0_, 0, "one\n"), Chunk(rank0_, 4, "two\n")}));
  Open();
  ASSERT_OK(Logs({Chunk(rank0_, 4, "two\n"), Chunk(rank0_, 6, "o\nthree\n")}));
  EXPECT_EQ(counts_.duplicate_log_bytes, 6u);
  EXPECT_EQ(ReadText({.job_id = 1}), "one\ntwo\nthree\n");
  ASSERT_OK(Logs({Chunk(rank0_, 100, "later\n")}));
  EXPECT_EQ(counts_.gaps, 1u);
  EXPECT_EQ(ReadText({.job_id = 1}), "one\ntwo\nthree\nlater\n");
}

TEST_F(MetricsStoreTest, LogsAreReadByAttemptAndFilteredByRank) {
  const RankKey rank1{1, 1, 1, 1};
  const RankKey second{1, 2, 1, 0};
  ASSERT_OK(Logs({Chunk(rank0_, 0, "a0\n"), Chunk(second, 0, "b0\n"), Chunk(rank1, 0, "a1\n")}));
  for (const uint64_t page : {1, 4, 1000}) {
    EXPECT_EQ(ReadText({.job_id = 1}, page), "a0\na1\nb0\n");
    EXPECT_EQ(ReadText({.job_id = 1, .rank = 0}, page), "a0\nb0\n");
    EXPECT_EQ(ReadText({.job_id = 1, .attempt = 1}, page), "a0\na1\n");
  }
  LogPosition after_first;
  after_first.begun = after_first.following = true;
  after_first.followed_id = 1;
  auto arrived = ReadPage(LogReading({.job_id = 1, .follow = true}, after_first));
  ASSERT_OK(arrived);
  ASSERT_EQ(arrived->chunks.size(), 2u);
  EXPECT_EQ(arrived->chunks[0].chunk.text, "b0\n");
  EXPECT_EQ(arrived->chunks[1].chunk.text, "a1\n");
}

TEST_F(MetricsStoreTest, TailsBeginAtALine) {
  const RankKey rank1{1, 1, 1, 1};
  ASSERT_OK(
      Logs({Chunk(rank0_, 0, "1\n2\n3\n"), Chunk(rank0_, 6, "4\n5\n"), Chunk(rank1, 0, "a\nb")}));
  auto page = ReadPage(LogReading({.job_id = 1, .tail_lines = 3}, {}));
  ASSERT_OK(page);
  std::map<uint32_t, LogTail>& tails = page->position.tails;
  ASSERT_EQ(tails.size(), 2u);
  EXPECT_EQ(tails[0].start.id, 1);
  EXPECT_EQ(tails[0].skip_bytes, 4u);
  EXPECT_EQ(tails[1].start.id, 3);
  EXPECT_EQ(tails[1].skip_bytes, 0u);
  page = ReadPage(LogReading({.job_id = 1, .rank = 1, .tail_lines = 1}, {}));
  ASSERT_OK(page);
  ASSERT_EQ(page->position.tails.size(), 1u);
  EXPECT_EQ(page->position.tails[1].skip_bytes, 2u);
}

// One rank of a large gang wrote a line at the start; the others go on and on.
TEST_F(MetricsStoreTest, TheTailsOfAGangAreFoundInOneWalkOfManyTurns) {
  constexpr uint32_t kRanks = 200;
  constexpr uint64_t kChunks = 500;  // of each rank
  std::vector<LogChunk> chunks{Chunk({1, 1, 1, kRanks}, 0, "long ago\n")};
  for (uint64_t i = 0; i < kChunks; ++i) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      chunks.push_back(Chunk({1, 1, 1, rank}, 2 * i, "x\n"));
    }
  }
  ASSERT_OK(Logs(std::move(chunks)));
  auto page = ReadPage(LogReading({.job_id = 1, .tail_lines = 2}, {}));
  ASSERT_OK(page);
  // All 100,001 chunks are passed once, and not once for each rank.
  EXPECT_GE(turns_, 3);
  EXPECT_LE(turns_, 10);
  std::map<uint32_t, LogTail>& tails = page->position.tails;
  ASSERT_EQ(tails.size(), kRanks + 1);
  EXPECT_EQ(tails[kRanks].start.id, 1);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    // The third chunk from its end: there the line before the last two ends.
    EXPECT_EQ(tails[rank].start.id, static_cast<int64_t>(2 + (kChunks - 3) * kRanks + rank));
  }
}

TEST_F(MetricsStoreTest, ATailIsFoundInTheAttemptThatIsAskedFor) {
  const RankKey second{1, 2, 1, 0};
  ASSERT_OK(Logs({Chunk(rank0_, 0, "a\nb\n"), Chunk(second, 0, "c\nd\n")}));
  auto page = ReadPage(LogReading({.job_id = 1, .tail_lines = 1}, {}));
  ASSERT_OK(page);
  EXPECT_EQ(page->position.tails[0].start.id, 2);
  page = ReadPage(LogReading({.job_id = 1, .attempt = 1, .tail_lines = 9}, {}));
  ASSERT_OK(page);
  EXPECT_EQ(page->position.tails[0].start.id, 1);
}

TEST_F(MetricsStoreTest, LogsAreReadByTheTimeAtWhichTheyWereWritten) {
  const RankKey rank1{1, 1, 1, 1};
  const RankKey again{1, 2, 1, 0};
  ASSERT_OK(Logs({ChunkAt(100, rank0_, 0, "a\n"), ChunkAt(300, rank0_, 2, "b\nc\n"),
                  ChunkAt(200, rank1, 0, "came late\n"), ChunkAt(400, again, 0, "d\n")}));
  EXPECT_EQ(ReadText({.job_id = 1, .since_ms = 300}), "b\nc\nd\n");
  EXPECT_EQ(ReadText({.job_id = 1, .until_ms = 300}), "a\ncame late\n") << "before it, not at it";
  EXPECT_EQ(ReadText({.job_id = 1, .since_ms = 200, .until_ms = 400}), "b\nc\ncame late\n");
  EXPECT_EQ(ReadText({.job_id = 1, .since_ms = 401}), "");
  EXPECT_EQ(ReadText({.job_id = 1, .rank = 0, .attempt = 1, .since_ms = 200}), "b\nc\n");

  LogQuery follow{.job_id = 1, .follow = true, .since_ms = 350};
  EXPECT_EQ(ReadText(follow), "d\n");
  const auto read = ReadPage(LogReading(follow, {}));
  ASSERT_OK(read);
  ASSERT_OK(Logs({ChunkAt(250, rank1, 10, "still older\n"), ChunkAt(450, again, 2, "e\n")}));
  const auto arrived = ReadPage(LogReading(follow, read->position));
  ASSERT_OK(arrived);
  ASSERT_EQ(arrived->chunks.size(), 1u);
  EXPECT_EQ(arrived->chunks[0].chunk.text, "e\n");
  EXPECT_EQ(arrived->chunks[0].chunk.written_ms, 450);
}

TEST_F(MetricsStoreTest, ATailOfATimeIsOfWhatWasWrittenInIt) {
  ASSERT_OK(Logs({ChunkAt(100, rank0_, 0, "a\nb\nc\n"), ChunkAt(200, rank0_, 6, "d\n")}));
  const auto page =
      ReadPage(LogReading({.job_id = 1, .rank = 0, .tail_lines = 2, .until_ms = 200}, {}));
  ASSERT_OK(page);
  ASSERT_TRUE(page->position.tails.contains(0));
  EXPECT_EQ(page->position.tails.at(0).start.id, 1);
  EXPECT_EQ(page->position.tails.at(0).skip_bytes, 2u);
  ASSERT_EQ(page->chunks.size(), 1u);
  EXPECT_EQ(page->chunks[0].chunk.text, "a\nb\nc\n");
}

TEST_F(MetricsStoreTest, AFewMinutesOfALongLogAreFoundInTurns) {
  constexpr int kChunks = 20'000;
  std::vector<LogChunk> chunks;
  for (int i = 0; i < kChunks; ++i) chunks.push_back(ChunkAt(i, rank0_, 2 * i, "x\n"));
  ASSERT_OK(Logs(std::move(chunks)));
  const auto page = ReadPage(LogReading({.job_id = 1, .since_ms = kChunks - 2}, {}));
  ASSERT_OK(page);
  EXPECT_EQ(page->chunks.size(), 2u);
  EXPECT_GT(turns_, 2) << "what is passed counts, too";
}

TEST_F(MetricsStoreTest, LogsOfBeforeTheyHadATimeAreReadStill) {
  store_.reset();
  const std::string path = dir_ / "older.db";
  {
    auto db = SqliteDatabase::Open({.path = path},
                                   {kMetricsMigrations.begin(), kMetricsMigrations.begin() + 4});
    ASSERT_OK(db);
    ASSERT_OK((*db)->Prepare("INSERT INTO logs VALUES(1, 1, 1, 1, 0, 0, 0, x'6F6C640A')").Run());
    ASSERT_OK((*db)->Prepare("INSERT INTO log_marks VALUES(1, 1, 1, 0, 0, 4)").Run());
  }
  auto store = MetricsStore::Open(path);
  ASSERT_OK(store);
  store_ = *std::move(store);
  ASSERT_OK(Logs({ChunkAt(100, rank0_, 4, "new\n")}));
  EXPECT_EQ(ReadText({.job_id = 1}), "old\nnew\n");
  EXPECT_EQ(ReadText({.job_id = 1, .since_ms = 1}), "new\n");
  EXPECT_EQ(ReadText({.job_id = 1, .until_ms = 101}), "new\n") << "nobody knows when it was";
}

TEST_F(MetricsStoreTest, WhoFollowsASilentRankPassesTheOthersOnce) {
  const RankKey rank1{1, 1, 1, 1};
  ASSERT_OK(Logs({Chunk(rank0_, 0, "a\n"), Chunk(rank0_, 2, "b\n"), Chunk(rank0_, 4, "c\n")}));
  const LogQuery query{.job_id = 1, .rank = 1, .follow = true};
  auto page = ReadPage(LogReading(query, {}));
  ASSERT_OK(page);
  EXPECT_TRUE(page->chunks.empty());
  ASSERT_OK(Logs({Chunk(rank0_, 6, "d\n")}));
  page = ReadPage(LogReading(query, page->position));
  ASSERT_OK(page);
  EXPECT_TRUE(page->chunks.empty());
  EXPECT_EQ(page->position.followed_id, 4);
  ASSERT_OK(Logs({Chunk(rank1, 0, "mine\n")}));
  page = ReadPage(LogReading(query, page->position));
  ASSERT_OK(page);
  ASSERT_EQ(page->chunks.size(), 1u);
  EXPECT_EQ(page->chunks[0].chunk.text, "mine\n");
}

TEST_F(MetricsStoreTest, AFullDiskStoresNothingOfTheGroupAndRecovers) {
  ASSERT_OK(Points({Record(rank0_, 1, 10, 1)}));
  Open(256 << 10);
  const MetricsBatch small{{Record(rank0_, 2, 20, 2)}, {}, {}};
  const MetricsBatch large{{}, {Chunk(rank0_, 0, std::string(1 << 20, 'x'))}, {}};
  IngestCounts counts;
  EXPECT_THAT(store_->Append({&small, &large}, counts),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(counts.points, 0u);
  EXPECT_THAT(Read({.job_id = 1}), ElementsAre("loss@10=1"));
  Open();
  ASSERT_OK(store_->Append({&small, &large}, counts));
  EXPECT_EQ(counts.points, 1u);
  EXPECT_EQ(counts.duplicate_records, 0u);
  EXPECT_THAT(Read({.job_id = 1}), ElementsAre("loss@10=1", "loss@20=2"));
}

TEST_F(MetricsStoreTest, RemovalTakesRowsButNotTheMarks) {
  std::vector<PointRecord> records;
  for (int i = 0; i < 600; ++i) {
    ASSERT_OK(Points({Record(rank0_, i + 1, i, 1)}));
  }
  ASSERT_OK(Logs({Chunk(rank0_, 0, "text\n")}));
  ASSERT_OK(Points({Record({2, 1, 1, 0}, 1, 1, 1)}));
  EXPECT_THAT(JobsStored(), ElementsAre("1", "2"));
  EXPECT_GT(*store_->UsedBytes(), 0u);
  int turns = 0;
  while (true) {
    auto more = store_->RemoveSome(1, /*forgotten=*/false);
    ASSERT_OK(more);
    if (!*more) break;
    ++turns;
  }
  EXPECT_GE(turns, 3);
  EXPECT_THAT(JobsStored(), ElementsAre("1 without rows", "2"));
  EXPECT_THAT(Read({.job_id = 1}), IsEmpty());
  EXPECT_EQ(ReadText({.job_id = 1}), "");
  EXPECT_EQ(Read({.job_id = 2}).size(), 1u);
  ASSERT_OK(Points({Record(rank0_, 600, 599, 1)}));
  EXPECT_EQ(counts_.duplicate_records, 1u);
  EXPECT_THAT(Read({.job_id = 1}), IsEmpty());
  ASSERT_OK(Points({Record(rank0_, 601, 600, 1)}));
  EXPECT_THAT(JobsStored(), ElementsAre("1", "2")) << "it was queued again";
}

TEST_F(MetricsStoreTest, OfAForgottenJobNothingStays) {
  // 300 ranks, each with a mark of its points, one of its log, and a gap in either.
  for (uint32_t rank = 0; rank < 300; ++rank) {
    ASSERT_OK(Points({Record({1, 1, 1, rank}, 2, 1, 1)}));
    ASSERT_OK(Logs({Chunk({1, 1, 1, rank}, 5, "text\n")}));
  }
  ASSERT_OK(Points({Record({2, 1, 1, 0}, 1, 1, 1)}));
  while (*store_->RemoveSome(1, /*forgotten=*/false)) {
  }
  int turns = 0;
  while (*store_->RemoveSome(1, /*forgotten=*/true)) ++turns;
  EXPECT_GE(turns, 2 + 2 + 3) << "by some rows a turn";
  EXPECT_THAT(JobsStored(), ElementsAre("2"));
  for (const bool reopened : {false, true}) {
    if (reopened) Open();
    counts_ = {};
    ASSERT_OK(Points({Record({1, 1, 1, 7}, 2, 1, 1)}));
    EXPECT_EQ(counts_.duplicate_records, 0u) << "no mark of it is left";
    EXPECT_EQ(counts_.gaps, 1u);
    while (*store_->RemoveSome(1, /*forgotten=*/true)) {
    }
  }
  store_.reset();
  auto db = SqliteDatabase::Open({.path = dir_ / "metrics.db"}, kMetricsMigrations);
  ASSERT_OK(db);
  for (const char* table : {"rank_marks", "log_marks", "gaps", "job_names", "known_jobs"}) {
    SqliteStatement count =
        (*db)->Prepare(absl::StrCat("SELECT sum(job = 1) FROM ", table).c_str());
    ASSERT_OK(count.Step());
    EXPECT_EQ(count.Int(0), 0) << table;
  }
}

TEST_F(MetricsStoreTest, AnOlderDatabaseKnowsWhoseMarksItHas) {
  store_.reset();
  const std::string path = dir_ / "older.db";
  {
    auto db = SqliteDatabase::Open({.path = path}, {kMetricsMigrations[0], kMetricsMigrations[1]});
    ASSERT_OK(db);
    ASSERT_OK((*db)->Prepare("INSERT INTO jobs_with_rows(job) VALUES(1)").Run());
    for (int job : {1, 2, 3}) {
      SqliteStatement mark = (*db)->Prepare("INSERT INTO rank_marks VALUES(?, 1, 1, 0, 7, NULL)");
      mark.Bind(job);
      ASSERT_OK(mark.Run());
    }
  }
  auto store = MetricsStore::Open(path);
  ASSERT_OK(store);
  store_ = *std::move(store);
  EXPECT_THAT(JobsStored(), ElementsAre("1", "2 without rows", "3 without rows"));
}

TEST_F(MetricsStoreTest, OneJobKeepsTheNewestOfItsLogsWithinItsBudget) {
  store_->SetLogBudget(1000);
  const RankKey noisy{1, 1, 1, 0};
  const RankKey quiet{2, 1, 1, 0};
  EXPECT_OK(Logs({Chunk(quiet, 0, std::string(900, 'q'))}));
  for (uint64_t i = 0; i < 50; ++i) {
    EXPECT_OK(Logs({Chunk(noisy, i * 100, std::string(100, static_cast<char>('a' + i % 26)))}));
    EXPECT_LE(ReadText({.job_id = 1}).size(), 1000u) << i;
    if (i == 30) Open();  // what is stored is counted anew
    store_->SetLogBudget(1000);
  }
  const std::string text = ReadText({.job_id = 1});
  EXPECT_EQ(text.substr(text.size() - 100), std::string(100, 'a' + 49 % 26));
  EXPECT_EQ(ReadText({.job_id = 2}).size(), 900u) << "another job's stay";
  EXPECT_EQ(counts_.dropped_log_bytes, 5000 - text.size());
  // What went is recorded, in one row of its stream.
  store_.reset();
  auto db = SqliteDatabase::Open({.path = dir_ / "metrics.db"}, kMetricsMigrations);
  ASSERT_OK(db);
  SqliteStatement gaps = (*db)->Prepare("SELECT job, kind, first, last FROM gaps");
  ASSERT_TRUE(*gaps.Step());
  EXPECT_EQ(gaps.Int(0), 1);
  EXPECT_EQ(gaps.Int(1), kStdoutDropped);
  EXPECT_EQ(gaps.Int(2), 0);
  EXPECT_EQ(gaps.Int(3), static_cast<int64_t>(4999 - text.size()));
  EXPECT_FALSE(*gaps.Step());
}

TEST_F(MetricsStoreTest, OneJobKeepsTheNewestOfItsPointsWithinItsBudget) {
  constexpr int64_t kRecords = 3000;
  const RankKey noisy{1, 1, 1, 0};
  const RankKey quiet{2, 1, 1, 0};
  ASSERT_OK(Points({Record(quiet, 1, 1, 1)}));
  for (int64_t i = 1; i <= kRecords; ++i) {
    store_->SetPointBudget(20'000);
    ASSERT_OK(Points({Record(noisy, i, i, 0.1 * static_cast<double>(i))}));
    if (i == kRecords / 2) Open();  // what is stored is counted anew
  }
  const auto kept = ReadPage(PointReading({.job_id = 1, .names = {"loss"}, .page_size = 5000}));
  ASSERT_OK(kept);
  EXPECT_EQ(kept->points.back().step, kRecords);
  EXPECT_GT(kept->points.front().step, 1);
  EXPECT_EQ(counts_.dropped_points, kRecords - kept->points.size());
  EXPECT_EQ(Read({.job_id = 2}).size(), 1u) << "another job's stay";
  store_.reset();
  auto db = SqliteDatabase::Open({.path = dir_ / "metrics.db"}, kMetricsMigrations);
  ASSERT_OK(db);
  {
    SqliteStatement bytes = (*db)->Prepare("SELECT sum(length(packed)) FROM points WHERE job = 1");
    ASSERT_TRUE(*bytes.Step());
    EXPECT_LE(bytes.Int(0), 20'000);
  }
  // What went is recorded, in one row of its rank.
  SqliteStatement gaps = (*db)->Prepare("SELECT job, kind, first, last FROM gaps");
  ASSERT_TRUE(*gaps.Step());
  EXPECT_EQ(gaps.Int(0), 1);
  EXPECT_EQ(gaps.Int(1), kPointsDropped);
  EXPECT_EQ(gaps.Int(2), 0);
  EXPECT_EQ(gaps.Int(3), kept->points.front().step - 1);
  EXPECT_FALSE(*gaps.Step());
}

// Four jobs that put the step into each name would fill the dictionary for all that come later.
TEST_F(MetricsStoreTest, NamesThatNoJobHasAnyMoreMakeRoomForNewOnes) {
  const auto report = [&](uint64_t job, int names) {
    PointRecord record{{job, 1, 1, 0}, 1, {}};
    for (int i = 0; i < names; ++i) {
      record.points.push_back({absl::StrCat("job ", job, " name ", i), 1, 0, 1});
    }
    EXPECT_OK(Points({std::move(record)}));
  };
  for (uint64_t job = 1; job <= 4; ++job) report(job, 5000);
  EXPECT_EQ(counts_.refused_points, 4 * (5000 - 4096)) << "of one job so many are kept";
  report(5, 1);
  EXPECT_EQ(counts_.refused_points, 4 * (5000 - 4096) + 1) << "of all jobs, likewise";
  while (*store_->RemoveSome(2, /*forgotten=*/false)) {
  }
  report(6, 1);
  EXPECT_EQ(counts_.refused_points, 4 * (5000 - 4096) + 1);
  EXPECT_THAT(Read({.job_id = 6}), ElementsAre("job 6 name 0@1=1"));
  EXPECT_EQ(Read({.job_id = 3}).size(), 4096u);
}

}  // namespace
}  // namespace muster::controller
