#include "worker/data_tool/check/verify_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/worker/data_tool/tool_data.h"
#include "worker/data/formats/shard_index.h"
#include "worker/data_tool/check/feed_rate.h"
#include "worker/data_tool/check/picture_statistics.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class VerifyDataTest : public ToolDataTest {
 protected:
  absl::StatusOr<VerifyReport> Verify(const std::string& path, const VerifyOptions& options) {
    auto indexes = OpenAll(path);
    if (!indexes.ok()) return indexes.status();
    return VerifyData(fs_, *indexes, options);
  }
};

TEST_F(VerifyDataTest, SoundPicturesOfEveryKindPass) {
  for (const std::string& path : {MakeFolder(24), MakeTars(24, 4), MakeTfRecords(24)}) {
    ASSERT_OK_AND_ASSIGN(const VerifyReport report, Verify(path, {.threads = 3}));
    EXPECT_EQ(report.samples, 24u) << path;
    EXPECT_EQ(report.broken, 0u) << path;
    EXPECT_THAT(report.listed, IsEmpty()) << path;
  }
}

TEST_F(VerifyDataTest, ListsWhatIsCutOffOrNoPictureInOrderForAnyThreads) {
  const std::string folder = MakeFolder(24);
  const std::string whole = PictureBytes(4);
  PutFile(absl::StrCat(folder, "/", KeyName(4), ".jpg"), whole.substr(0, whole.size() / 2));
  PutFile(absl::StrCat(folder, "/", KeyName(9), ".jpg"), "no picture");
  PutFile(absl::StrCat(folder, "/", KeyName(10), ".jpg"), "");
  for (const int threads : {1, 4}) {
    ASSERT_OK_AND_ASSIGN(const VerifyReport report, Verify(folder, {.threads = threads}));
    EXPECT_EQ(report.broken, 3u);
    ASSERT_EQ(report.listed.size(), 3u);
    for (const BrokenSample& sample : report.listed) {
      EXPECT_TRUE(sample.key == KeyName(4) || sample.key == KeyName(9) ||
                  sample.key == KeyName(10));
      EXPECT_EQ(sample.file, absl::StrCat(folder, "/", sample.key, ".jpg"));
      EXPECT_NE(sample.reason, "");
    }
  }
  // Headers alone do not tell that the end is missing.
  ASSERT_OK_AND_ASSIGN(const VerifyReport headers, Verify(folder, {.headers_only = true}));
  EXPECT_EQ(headers.broken, 2u);
  ASSERT_OK_AND_ASSIGN(const VerifyReport few, Verify(folder, {.most_listed = 1}));
  EXPECT_EQ(few.broken, 3u);
  EXPECT_EQ(few.listed.size(), 1u);
}

TEST_F(VerifyDataTest, FilesThatHaveGoneSinceTheyWereIndexedAreBroken) {
  const std::string folder = MakeFolder(12);
  ASSERT_OK_AND_ASSIGN(const DataIndexes indexes, OpenAll(folder));
  std::filesystem::remove(absl::StrCat(folder, "/", KeyName(3), ".jpg"));
  ASSERT_OK_AND_ASSIGN(const VerifyReport report, VerifyData(fs_, indexes, {}));
  ASSERT_EQ(report.listed.size(), 1u);
  EXPECT_EQ(report.listed[0].key, KeyName(3));
}

TEST_F(VerifyDataTest, AWrongChecksumAndAWrongLabelAreFound) {
  const std::string path = MakeTfRecords(6);
  std::string bytes = FileText(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);  // of the last record's checksum
  PutFile(path, bytes);
  ASSERT_OK_AND_ASSIGN(const VerifyReport report, Verify(path, {}));
  EXPECT_EQ(report.checked_files, 1u);
  ASSERT_EQ(report.broken, 1u);
  EXPECT_EQ(report.listed[0].key, "");
  EXPECT_THAT(report.listed[0].reason, HasSubstr("checksum"));

  PutFile(dir_ / "labels/train.tar", testing::TarFile("a.jpg", PictureBytes(1)) +
                                         testing::TarFile("a.cls", "0") +
                                         testing::TarFile("b.jpg", PictureBytes(2)) +
                                         testing::TarFile("b.cls", "1") + testing::TarEnd());
  PutFile(dir_ / "labels/val.tar", testing::TarFile("c.jpg", PictureBytes(1)) +
                                       testing::TarFile("c.cls", "7") + testing::TarEnd());
  ASSERT_OK_AND_ASSIGN(const VerifyReport labels, Verify(dir_ / "labels", {}));
  ASSERT_EQ(labels.listed.size(), 1u);
  EXPECT_EQ(labels.listed[0].key, "c");
  EXPECT_THAT(labels.listed[0].reason, HasSubstr("class 7, and there are 2"));
}

// Whoever reads the shards from afar believes the labels there.
TEST_F(VerifyDataTest, AnIndexBesideAShardIsComparedWithIt) {
  const std::string tars = MakeTars(12, 3);
  const std::string tar = tars + "/train-0.tar", beside = tars + "/train-0.idx";
  ASSERT_OK_AND_ASSIGN(const std::string text, MakeShardIndex(fs_, tar, {}));
  PutFile(beside, text);
  for (const bool headers : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const VerifyReport sound, Verify(tars, {.headers_only = headers}));
    EXPECT_EQ(sound.broken, 0u);
    EXPECT_EQ(sound.compared_indexes, 1u);
  }
  ASSERT_EQ(text.substr(text.size() - 3), "\n2\n");  // of the last, number 8
  PutFile(beside, text.substr(0, text.size() - 2) + "1\n");
  ASSERT_OK_AND_ASSIGN(const VerifyReport wrong, Verify(tars, {}));
  ASSERT_EQ(wrong.listed.size(), 1u);
  EXPECT_EQ(wrong.broken, 1u);
  EXPECT_EQ(wrong.listed[0].file, beside);
  EXPECT_THAT(
      wrong.listed[0].reason,
      AllOf(HasSubstr(KeyName(8)), HasSubstr("the label 1, and " + tar), HasSubstr("the label 2")));
  // That of another making, of which the index of the data knows nothing.
  ASSERT_OK_AND_ASSIGN(const DataIndexes indexes, OpenAll(tars));
  PutFile(beside, "v1.2 1\njpg 512 10 other.jpg\n");
  ASSERT_OK_AND_ASSIGN(const VerifyReport other, VerifyData(fs_, indexes, {}));
  EXPECT_EQ(other.listed.size(), 1u);
}

TEST_F(VerifyDataTest, StatisticsAreTheSameForAnyThreads) {
  ASSERT_OK_AND_ASSIGN(const DataIndexes indexes, OpenAll(MakeTars(24, 2)));
  const SampleIndex& train = IndexOf(indexes, Split::kTrain);
  ASSERT_OK_AND_ASSIGN(const PictureStatistics one, GatherStatistics(fs_, train, {.threads = 1}));
  ASSERT_OK_AND_ASSIGN(const PictureStatistics four, GatherStatistics(fs_, train, {.threads = 4}));
  EXPECT_EQ(one.mean, four.mean);
  EXPECT_EQ(one.std, four.std);
  EXPECT_EQ(one.samples, 22u);
  EXPECT_EQ(one.decoded, 22u);
  EXPECT_EQ(one.unreadable, 0u);
  EXPECT_EQ(one.kinds.at("JPEG"), 20u);
  EXPECT_EQ(one.kinds.at("PNG"), 1u);
  EXPECT_EQ(one.kinds.at("WebP"), 1u);
  EXPECT_EQ(one.kinds.at("progressive JPEG"), 4u);  // 3, 11, 15, 19
  EXPECT_EQ(one.kinds.at("grey JPEG"), 4u);         // 0, 6, 12, 18
  EXPECT_EQ(one.classes.size(), 3u);
  EXPECT_EQ(one.widths.least, 60u);
  EXPECT_EQ(one.widths.greatest, 88u);
  EXPECT_EQ(one.widths.median, 74u);
  EXPECT_GT(one.bytes.least, 0u);
  EXPECT_LE(one.bytes.least, one.bytes.median);
  ASSERT_OK_AND_ASSIGN(const PictureStatistics some, GatherStatistics(fs_, train, {.decoded = 5}));
  EXPECT_EQ(some.decoded, 5u);
}

// A picture of one colour has that mean and no deviation.
TEST_F(VerifyDataTest, MeanAndStdAreThoseOfThePixels) {
  testing::Pixels pixels{.width = 32, .height = 32, .channels = 3, .values = {}};
  for (int i = 0; i < 32 * 32; ++i) pixels.values.insert(pixels.values.end(), {51, 102, 204});
  const std::vector<uint16_t> samples(pixels.values.begin(), pixels.values.end());
  const std::string png = testing::EncodePng(32, 32, samples, {}, {.colour_type = 2});
  for (const char* name : {"a/1.png", "a/2.png", "b/3.png"})
    PutFile(dir_ / "flat/train/" + name, png);
  PutFile(dir_ / "flat/val/a/1.png", png);
  ASSERT_OK_AND_ASSIGN(const DataIndexes indexes, OpenAll(dir_ / "flat"));
  ASSERT_OK_AND_ASSIGN(const PictureStatistics found,
                       GatherStatistics(fs_, IndexOf(indexes, Split::kTrain), {}));
  EXPECT_NEAR(found.mean[0], 0.2, 1e-9);
  EXPECT_NEAR(found.mean[1], 0.4, 1e-9);
  EXPECT_NEAR(found.mean[2], 0.8, 1e-9);
  EXPECT_NEAR(found.std[0], 0, 1e-6);
}

TEST_F(VerifyDataTest, EveryStageOfFeedingMakesSamples) {
  ASSERT_OK_AND_ASSIGN(const DataIndexes indexes, OpenAll(MakeFolder(12)));
  for (const FeedStage stage : kFeedStages) {
    ASSERT_OK_AND_ASSIGN(const FeedRate rate,
                         MeasureFeed(fs_, IndexOf(indexes, Split::kTrain), stage,
                                     {.threads = 2, .seconds = 0.05, .size = 32}));
    EXPECT_GT(rate.samples, 0u) << FeedStageName(stage);
    EXPECT_GT(rate.samples_per_second, 0) << FeedStageName(stage);
    EXPECT_EQ(rate.broken, 0u);
  }
}

}  // namespace
}  // namespace muster::worker
