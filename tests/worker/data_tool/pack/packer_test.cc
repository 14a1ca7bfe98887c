#include "worker/data_tool/pack/packer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/object_store/cache/forwarding_file_system.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/full_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data_tool/tool_data.h"
#include "worker/data/formats/shard_index.h"
#include "worker/data/formats/tf_record.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::DecodeJpeg;
using ::muster::testing::FaultyFileSystem;
using ::muster::testing::FullFileSystem;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PackerTest : public ToolDataTest {
 protected:
  PackRequest RequestFor(const std::string& path, const std::string& out) const {
    PackRequest request;
    request.path = path;
    request.out = dir_ / out;
    return request;
  }
  absl::Status Pack(const PackRequest& request) { return PackData(data_, fs_, request).status(); }

  // Each split of the packed data has the samples of the source: the same keys under the same
  // numbers, labels, and pixels.
  void ExpectSame(const std::string& source, const std::string& packed, bool same_bytes = false) {
    ASSERT_OK_AND_ASSIGN(const DataIndexes before, OpenAll(source));
    ASSERT_OK_AND_ASSIGN(const DataIndexes after, OpenAll(packed));
    for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
      const SampleIndex &one = IndexOf(before, split), &other = IndexOf(after, split);
      ASSERT_EQ(one.size(), other.size()) << SplitName(split);
      EXPECT_EQ(one.class_names(), other.class_names());
      for (uint64_t id = 0; id < one.size(); ++id) {
        ASSERT_OK_AND_ASSIGN(const StoredPlace was, PlaceOfSample(one, id));
        ASSERT_OK_AND_ASSIGN(const StoredPlace is, PlaceOfSample(other, id));
        EXPECT_EQ(was.key, is.key);
        EXPECT_EQ(was.label, is.label);
        std::string old_bytes, new_bytes;
        ASSERT_OK(ReadStored(fs_, was, old_bytes));
        ASSERT_OK(ReadStored(fs_, is, new_bytes));
        if (same_bytes || old_bytes.substr(0, 2) != "\xff\xd8") {
          EXPECT_EQ(old_bytes, new_bytes) << was.key;
        } else {
          EXPECT_EQ(DecodeJpeg(old_bytes).values, DecodeJpeg(new_bytes).values) << was.key;
        }
      }
    }
  }
};

TEST_F(PackerTest, EveryFormatKeepsKeysClassesAndPixels) {
  const std::vector<std::string> sources = {MakeFolder(40), MakeTars(40, 9), MakeTfRecords(40)};
  for (size_t i = 0; i < sources.size(); ++i) {
    const PackRequest request = RequestFor(sources[i], absl::StrCat("packed-", i));
    ASSERT_OK_AND_ASSIGN(const PackReport report, PackData(data_, fs_, request));
    EXPECT_EQ(report.samples, 40u);
    EXPECT_EQ(report.packings[static_cast<size_t>(Packing::kRepacked)], 38u);
    EXPECT_EQ(report.packings[static_cast<size_t>(Packing::kKept)], 2u);
    ExpectSame(sources[i], request.out);
    for (const char* shard : {"/train-000000", "/validation-000000"}) {
      ASSERT_OK_AND_ASSIGN(const std::string index,
                           MakeShardIndex(fs_, absl::StrCat(request.out, shard, ".tar"), {}));
      EXPECT_EQ(FileText(absl::StrCat(request.out, shard, ".idx")), index);
    }
    EXPECT_FALSE(std::filesystem::exists(request.out + "/.pack"));
    EXPECT_FALSE(std::filesystem::exists(request.out + "/.pack.lock"));
    EXPECT_FALSE(std::filesystem::exists(request.out + "/pack.unfinished"));
  }
  PackRequest as_they_are = RequestFor(sources[0], "as-they-are");
  as_they_are.settings.repack = false;
  ASSERT_OK(Pack(as_they_are));
  ExpectSame(sources[0], as_they_are.out, /*same_bytes=*/true);
}

// Pictures large enough for several shards of the smallest size.
class ManyShardsTest : public PackerTest {
 protected:
  static constexpr int kLarge = 18;
  std::string MakeLarge() const {
    for (int i = 0; i < kLarge; ++i) {
      PutFile(absl::StrCat(dir_.path(), "/large/", KeyName(i), ".jpg"),
              testing::EncodeJpeg(testing::MakePhoto(640, 480, 3, static_cast<uint64_t>(i), 60),
                                  {.quality = 97}));
    }
    return dir_ / "large";
  }
  PackRequest LargeRequest(const std::string& out) const {
    PackRequest request = RequestFor(dir_ / "large", out);
    request.settings.shard_mib = 1;
    return request;
  }
};

TEST_F(ManyShardsTest, TheSameBytesForAnyThreadsAndAMixtureInEachShard) {
  MakeLarge();
  PackRequest one = LargeRequest("one"), four = LargeRequest("four");
  four.threads = 4;
  ASSERT_OK_AND_ASSIGN(const PackReport report, PackData(data_, fs_, one));
  EXPECT_GT(report.shards, 3u);
  ASSERT_OK(Pack(four));
  EXPECT_EQ(FilesBelow(one.out), FilesBelow(four.out));
  EXPECT_EQ(FileText(one.out + "/classes.txt"), "class-0\nclass-1\nclass-2\n");
  // Of shards of three or four pictures most are not of one class.
  int mixtures = 0;
  for (const auto& [name, file] : FilesBelow(one.out)) {
    int classes = 0;
    for (int i = 0; i < kClassCount; ++i)
      if (file.bytes.find(ClassName(i) + "/") != std::string::npos) ++classes;
    if (classes > 1) ++mixtures;
  }
  EXPECT_GT(mixtures, 1);
  ExpectSame(dir_ / "large", one.out);
}

TEST_F(ManyShardsTest, GoesOnWithTheShardsThatAreMissing) {
  MakeLarge();
  const PackRequest request = LargeRequest("out");
  ASSERT_OK_AND_ASSIGN(const PackReport whole, PackData(data_, fs_, request));
  const auto files = FilesBelow(request.out);
  std::filesystem::remove(request.out + "/train-000001.tar");
  std::filesystem::remove(request.out + "/train-000002.idx");
  ASSERT_OK_AND_ASSIGN(const PackReport rest, PackData(data_, fs_, request));
  EXPECT_EQ(rest.shards, whole.shards);
  EXPECT_EQ(rest.shards_written, 1u);
  EXPECT_EQ(FilesBelow(request.out), files);
  ASSERT_OK_AND_ASSIGN(const PackReport nothing, PackData(data_, fs_, request));
  EXPECT_EQ(nothing.shards_written, 0u);
}

TEST_F(ManyShardsTest, GoesOnWhereItWasKilledWhileItWroteItsSettings) {
  MakeLarge();
  const PackRequest whole = LargeRequest("whole"), killed = LargeRequest("killed");
  ASSERT_OK(Pack(whole));
  for (const char* name : {"pack.unfinished", "pack.unfinished.00c0ffee00c0ffee.tmp",
                           "pack.json.fd0c934599e09707.tmp"}) {
    PutFile(absl::StrCat(killed.out, "/", name), "{");
  }
  ASSERT_OK(Pack(killed));
  EXPECT_EQ(FilesBelow(killed.out), FilesBelow(whole.out));
}

TEST_F(ManyShardsTest, GoesOnWhereItWasKilledWhileItWroteAnIndex) {
  MakeLarge();
  const PackRequest request = LargeRequest("out");
  ASSERT_OK(Pack(request));
  const auto files = FilesBelow(request.out);
  std::filesystem::rename(request.out + "/train-000001.idx",
                          request.out + "/train-000001.idx.8a05365b1a140646.tmp");
  ASSERT_OK(Pack(request));
  EXPECT_EQ(FilesBelow(request.out), files);
}

// Whatever fails, nothing is half-written, and the same call afterwards gives the same bytes.
TEST_F(ManyShardsTest, AFailureOfAnyCallToTheDiskLeavesWhatCanGoOn) {
  MakeLarge();
  ASSERT_OK(OpenAll(dir_ / "large"));
  PackRequest sound = LargeRequest("sound");
  sound.settings.repack = false;  // it is about files
  FaultyFileSystem counted(fs_);
  ASSERT_OK(PackData(data_, counted, sound));
  const auto files = FilesBelow(sound.out);
  const int operations = counted.operations();
  ASSERT_GT(operations, 20);
  for (int n = 1; n <= operations; n += 1 + operations / 25) {
    PackRequest request = sound;
    request.out = dir_ / absl::StrCat("failed-", n);
    FaultyFileSystem faulty(fs_);
    faulty.FailAt(n, absl::ResourceExhaustedError("no space left"));
    const auto failed = PackData(data_, faulty, request);
    EXPECT_THAT(failed.status(), StatusIs(StatusCode::kResourceExhausted)) << n;
    if (std::filesystem::exists(request.out)) {
      for (const auto& [name, file] : FilesBelow(request.out)) {
        if (files.count(name) == 0) continue;
        EXPECT_EQ(file, files.at(name)) << n << " " << name;
      }
    }
    ASSERT_OK(Pack(request)) << n;
    EXPECT_EQ(FilesBelow(request.out), files) << n;
    std::filesystem::remove_all(request.out);
  }
}

TEST_F(ManyShardsTest, AFullDiskIsToldAndWhoReadsTheFolderIsWarned) {
  MakeLarge();
  ASSERT_OK(OpenAll(dir_ / "large"));
  const PackRequest request = LargeRequest("out");
  FullFileSystem disk(fs_);
  PackRequest filling = request;
  int packed = 0;
  filling.progress = [&] {
    if (++packed == 8) disk.SetFull(true);
  };
  EXPECT_THAT(PackData(data_, disk, filling).status(),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("No space left")));
  EXPECT_THAT(OpenAll(request.out),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("not packed whole")));
  ASSERT_OK(Pack(request));
  ExpectSame(dir_ / "large", request.out);
}

TEST_F(PackerTest, OtherSettingsOtherDataAndOtherFilesAreRefused) {
  PackRequest request = RequestFor(MakeFolder(20), "out");
  ASSERT_OK(Pack(request));
  request.settings.resize = 40;
  EXPECT_THAT(Pack(request), StatusIs(StatusCode::kFailedPrecondition,
                                      HasSubstr("was begun with resize 0, and now it is 40")));
  request.settings.resize = 0;
  request.path = MakeTars(20, 2);
  EXPECT_THAT(Pack(request),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("was begun with data")));
  PutFile(dir_ / "full/notes.txt", "mine");
  request.out = dir_ / "full";
  EXPECT_THAT(Pack(request), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("notes.txt")));
  request.out = request.path + "/packed";
  EXPECT_THAT(Pack(request),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("within the data")));
}

// Does something else when a pack is about to take its lock.
class InterveningFileSystem final : public ForwardingFileSystem {
 public:
  explicit InterveningFileSystem(std::function<void()> intervene)
      : intervene_(std::move(intervene)) {}
  absl::Status MakeDirectories(const std::string& path) override {
    if (intervene_) std::exchange(intervene_, nullptr)();
    return ForwardingFileSystem::MakeDirectories(path);
  }

 private:
  absl::StatusOr<FileSystem*> Of(const std::string&) override { return &PosixFileSystem(); }
  std::function<void()> intervene_;
};

TEST_F(ManyShardsTest, OneThatWaitedForAnotherComparesItsSettings) {
  MakeLarge();
  const PackRequest first = LargeRequest("out");
  PackRequest second = first;
  second.settings.shard_mib = 2;
  InterveningFileSystem disk([&] { ASSERT_OK(Pack(first)); });
  EXPECT_THAT(
      PackData(data_, disk, second).status(),
      StatusIs(StatusCode::kFailedPrecondition, HasSubstr("begun with shard_mib 1, and now")));
  InterveningFileSystem same([&] { ASSERT_OK(Pack(first)); });
  EXPECT_OK(PackData(data_, same, first).status());
  ExpectSame(dir_ / "large", first.out);
}

TEST_F(PackerTest, HoldsOutAShareOfEachClassWhereTheDataNameNoSets) {
  PackRequest request = RequestFor(MakeFolder(60), "out");
  request.settings.validation = 0.2;
  ASSERT_OK(Pack(request));
  ASSERT_OK_AND_ASSIGN(const DataIndexes indexes, OpenAll(request.out));
  EXPECT_EQ(IndexOf(indexes, Split::kTrain).size(), 48u);
  EXPECT_EQ(IndexOf(indexes, Split::kValidation).size(), 12u);
  PackRequest named = RequestFor(MakeTars(20, 2), "named");
  named.settings.validation = 0.2;
  EXPECT_THAT(Pack(named), StatusIs(StatusCode::kInvalidArgument, HasSubstr("names its sets")));
}

// Records without names have keys with a dot, from the file's name.
TEST_F(PackerTest, KeysWithADotKeepTheirOrder) {
  std::string records;
  for (int i = 0; i < 12; ++i) {
    records += testing::TfRecordBytes(
        testing::TfExampleBytes({{"image/encoded", testing::BytesFeature(PictureBytes(i))},
                                 {"image/class/label", testing::IntegerFeature(i % kClassCount)}}));
  }
  PutFile(dir_ / "train.v1.tfrecord", records);
  const PackRequest request = RequestFor(dir_ / "train.v1.tfrecord", "out");
  ASSERT_OK_AND_ASSIGN(const PackReport report, PackData(data_, fs_, request));
  EXPECT_EQ(report.changed_keys, 12u);
  ASSERT_OK_AND_ASSIGN(const DataIndexes indexes, OpenAll(request.out));
  ASSERT_OK_AND_ASSIGN(const StoredPlace first, PlaceOfSample(IndexOf(indexes, Split::kTrain), 0));
  EXPECT_THAT(first.key, HasSubstr("train-v1-tfrecord:"));

  PutFile(dir_ / "clash/train.tar", testing::TarFile("a.jpg", PictureBytes(1)) + testing::TarEnd());
  std::string clash;
  for (const char* key : {"a.b", "a-b"}) {
    clash += testing::TfRecordBytes(
        testing::TfExampleBytes({{"image/encoded", testing::BytesFeature(PictureBytes(1))},
                                 {"image/class/label", testing::IntegerFeature(0)},
                                 {"__key__", testing::BytesFeature(key)}}));
  }
  PutFile(dir_ / "train.clash.tfrecord", clash);
  PutFile(dir_ / "both/train.tfrecord", clash);
  PutFile(dir_ / "both/val.tfrecord", records);
  EXPECT_THAT(Pack(RequestFor(dir_ / "both", "clashing")),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("would change their order")));
}

// Where its pages are compressed and where they are not: rows whose bytes are no pictures.
TEST_F(PackerTest, ParquetIsPackedWithItsClassesAndBytes) {
  for (const std::string file : {"plain_v1", "dictionary_v1_snappy", "plain_v2_zstd"}) {
    const std::string path = absl::StrCat(PARQUET_FILES, "/", file, ".parquet");
    const PackRequest request = RequestFor(path, file);
    ASSERT_OK_AND_ASSIGN(const PackReport report, PackData(data_, fs_, request));
    EXPECT_EQ(report.samples, 24u);
    EXPECT_FALSE(std::filesystem::exists(request.out + "/.pack"));
    EXPECT_EQ(FileText(request.out + "/classes.txt"), "ant\nbee\ncat\n");
    // A tenth each is for validation and test, as it is of other formats.
    for (const char* shard : {"/train-000000.tar", "/validation-000000.tar", "/test-000000.tar"})
      EXPECT_TRUE(std::filesystem::exists(request.out + shard)) << shard;
    ASSERT_OK_AND_ASSIGN(const DataIndexes indexes, OpenAll(request.out));
    EXPECT_GT(IndexOf(indexes, Split::kTrain).size(), 12u);
    EXPECT_LT(IndexOf(indexes, Split::kTrain).size(), 24u);
    std::map<std::string, std::string> rows;
    for (const Split split : OwnSplits(indexes)) {
      for (uint64_t id = 0; id < IndexOf(indexes, split).size(); ++id) {
        ASSERT_OK_AND_ASSIGN(const StoredPlace place, PlaceOfSample(IndexOf(indexes, split), id));
        ASSERT_OK(ReadStored(fs_, place, rows[place.key]));
      }
    }
    ASSERT_EQ(rows.size(), 24u);
    std::string ten;
    for (int j = 0; j < 50; ++j) ten.push_back(static_cast<char>(10 + j));
    EXPECT_EQ(rows[file + "-parquet:00000010"], ten);
    ASSERT_OK_AND_ASSIGN(const PackReport again, PackData(data_, fs_, request));
    EXPECT_EQ(again.shards_written, 0u);
  }
}

// The tenths that are held out follow from the keys.
TEST_F(PackerTest, ParquetHasTheKeysThatTrainingOnItHas) {
  PutFile(dir_ / "photos", FileText(absl::StrCat(PARQUET_FILES, "/plain_v1.parquet")));
  const PackRequest request = RequestFor(dir_ / "photos", "out");
  ASSERT_OK(Pack(request));
  ExpectSame(request.path, request.out, /*same_bytes=*/true);
}

TEST_F(PackerTest, ParquetWhoseSetsNameOtherClassesIsRefused) {
  for (const std::string file : {"plain_v1", "plain_v2_zstd"}) {
    const std::string train = FileText(absl::StrCat(PARQUET_FILES, "/", file, ".parquet"));
    std::string other = train;
    const std::string names = R"("ant", "bee")";
    ASSERT_NE(other.find(names), std::string::npos);
    other.replace(other.find(names), names.size(), R"("bee", "ant")");
    const std::string folder = dir_ / absl::StrCat("sets-", file);
    PutFile(folder + "/train.parquet", train);
    PutFile(folder + "/val.parquet", other);
    EXPECT_THAT(Pack(RequestFor(folder, "out-" + file)),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("val.parquet names other cl")));
    PutFile(folder + "/val.parquet", train);
    PutFile(folder + "/more.parquet", train);
    EXPECT_THAT(Pack(RequestFor(folder, "again-" + file)),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("more.parquet is in no split")));
  }
}

// While its pictures are spooled, too.
TEST_F(PackerTest, AFailureWhileParquetIsPackedLeavesWhatCanGoOn) {
  const std::string path = absl::StrCat(PARQUET_FILES, "/dictionary_v1_snappy.parquet");
  const PackRequest sound = RequestFor(path, "sound");
  FaultyFileSystem counted(fs_);
  ASSERT_OK(PackData(data_, counted, sound));
  const auto files = FilesBelow(sound.out);
  for (int n = 1; n <= counted.operations(); ++n) {
    const PackRequest request = RequestFor(path, absl::StrCat("failed-", n));
    FaultyFileSystem faulty(fs_);
    faulty.FailAt(n, absl::ResourceExhaustedError("no space left"));
    EXPECT_THAT(PackData(data_, faulty, request).status(), StatusIs(StatusCode::kResourceExhausted))
        << n << " " << faulty.trace()[static_cast<size_t>(n - 1)];
    ASSERT_OK(Pack(request)) << n;
    EXPECT_EQ(FilesBelow(request.out), files) << n;
  }
}

TEST_F(PackerTest, ShrunkPicturesAreSmallAndTheRestIsAsItWas) {
  PackRequest request = RequestFor(MakeTars(12, 2), "out");
  request.settings.resize = 40;
  ASSERT_OK_AND_ASSIGN(const PackReport report, PackData(data_, fs_, request));
  EXPECT_EQ(report.packings[static_cast<size_t>(Packing::kShrunk)], 12u);
  ASSERT_OK_AND_ASSIGN(const DataIndexes indexes, OpenAll(request.out));
  const SampleIndex& train = IndexOf(indexes, Split::kTrain);
  for (uint64_t id = 0; id < train.size(); ++id) {
    ASSERT_OK_AND_ASSIGN(const StoredPlace place, PlaceOfSample(train, id));
    std::string bytes;
    ASSERT_OK(ReadStored(fs_, place, bytes));
    const testing::Pixels pixels = DecodeJpeg(bytes);
    EXPECT_EQ(std::min(pixels.width, pixels.height), 40);
  }
}

}  // namespace
}  // namespace muster::worker
