#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/worker/data_tool/tool_data.h"
#include "worker/data_tool/base/parallel_work.h"
#include "worker/data_tool/base/progress_line.h"
#include "worker/data_tool/base/tool_output.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

TEST(ParallelWork, DoesEachNumberOnceWhateverTheThreads) {
  for (const int threads : {1, 2, 7}) {
    std::vector<std::atomic<int>> times(100);
    EXPECT_OK(DoInParallel(threads, times.size(), [&](int thread, uint64_t number) {
      EXPECT_LT(thread, threads);
      ++times[number];
      return absl::OkStatus();
    }));
    for (const std::atomic<int>& time : times) EXPECT_EQ(time, 1);
  }
}

TEST(ParallelWork, EndsWithTheFirstError) {
  std::atomic<int> done = 0;
  EXPECT_THAT(DoInParallel(1, 100,
                           [&](int, uint64_t number) {
                             ++done;
                             return number == 3 ? absl::DataLossError("three") : absl::OkStatus();
                           }),
              StatusIs(StatusCode::kDataLoss, HasSubstr("three")));
  EXPECT_EQ(done, 4);
}

TEST(ProgressLineText, TellsShareRateAndWhatIsLeft) {
  EXPECT_EQ(ProgressText("verify", 26'000, 50'000, 8, true),
            "verify  [##########..........]  52 %  26,000 of 50,000  3,250/s  8s left");
  EXPECT_EQ(ProgressText("index", 1'234'567, 0, 1, true), "index  1,234,567  1,234,567/s");
  EXPECT_EQ(ProgressText("pack", 0, 10, 0, false), "pack  0 %  0 of 10");
}

TEST(TextTableTest, NumbersStandRightAndNoBlanksAtTheEnd) {
  TextTable table({"name", ">count"});
  EXPECT_TRUE(table.empty());
  table.Add({"a", "1"});
  table.Add({"née", "1,000"});
  EXPECT_EQ(table.Render(), "name  count\na         1\nnée   1,000\n");
  EXPECT_EQ(RenderFacts({{"a", "1"}, {"long", "2"}}), "a     1\nlong  2\n");
}

TEST(TextTableTest, BytesThatAreNoTextAreEscaped) {
  EXPECT_EQ(Printable("caf\xc3\xa9\n\x1b[2J"), "caf\xc3\xa9\\x0a\\x1b[2J");
  EXPECT_EQ(Printable("\xff"), "\\xff");
}

using OpenDataTest = ToolDataTest;

TEST_F(OpenDataTest, FindsASampleByKeyAndByNumber) {
  ASSERT_OK_AND_ASSIGN(const DataIndexes indexes, OpenAll(MakeTars(9, 3)));
  const SampleIndex& train = IndexOf(indexes, Split::kTrain);
  ASSERT_OK_AND_ASSIGN(const uint64_t id, FindSample(train, KeyName(4)));
  ASSERT_OK_AND_ASSIGN(const uint64_t same, FindSample(train, absl::StrCat(id)));
  EXPECT_EQ(id, same);
  ASSERT_OK_AND_ASSIGN(const StoredPlace place, PlaceOfSample(train, id));
  std::string bytes;
  ASSERT_OK(ReadStored(fs_, place, bytes));
  EXPECT_EQ(bytes, PictureBytes(4));
  EXPECT_EQ(place.label, 1);
  EXPECT_THAT(FindSample(train, "6"), StatusIs(StatusCode::kNotFound, HasSubstr("below 6")));
}

// As training refuses it, so that verify finds what would end a run.
TEST_F(OpenDataTest, ASampleThatIsTooLargeForTrainingIsRefused) {
  const std::string path = dir_ / "large.jpg";
  PutFile(path, "");
  const uint64_t size = (512u << 20) + 1;
  std::filesystem::resize_file(path, size);
  std::string bytes;
  EXPECT_THAT(ReadStored(fs_, {.key = "large", .file = path, .size = size}, bytes),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("sample large has 536870913")));
  EXPECT_OK(ReadStored(fs_, {.key = "large", .file = path, .size = size}, bytes, 1000));
}

TEST_F(OpenDataTest, ASplitThatStandsForTwoCountsOnce) {
  ASSERT_OK_AND_ASSIGN(const DataIndexes named, OpenAll(MakeTars(9, 3)));
  EXPECT_EQ(OwnSplits(named).size(), 2u);
  ASSERT_OK_AND_ASSIGN(const DataIndexes split, OpenAll(MakeFolder(60)));
  EXPECT_EQ(OwnSplits(split).size(), 3u);
}

}  // namespace
}  // namespace muster::worker
