#include "worker/data/index/sample_index.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/os/unique_name.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/data/index/index_writer.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::FaultyFileSystem;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::HasSubstr;

constexpr uint64_t kFileBytes = 1 << 20;

// Sample i of some, in an order that is not theirs.
std::string KeyOf(uint64_t i) { return absl::StrCat("class-", i % 7, "/picture-", i); }

class SampleIndexTest : public ::testing::Test {
 protected:
  absl::Status Write(FileSystem& fs, uint64_t samples, uint64_t memory_bytes = 64u << 20) {
    IndexWriter writer(fs, path_, {.memory_bytes = memory_bytes});
    for (int file = 0; file < 3; ++file)
      writer.AddFile(absl::StrCat("/data/shard-", file, ".tar"), kFileBytes);
    for (uint64_t n = 0; n < samples; ++n) {
      const uint64_t i = (n * 7919) % samples;  // 7919 is prime
      if (const absl::Status added = writer.Add({KeyOf(i), static_cast<uint32_t>(i % 3), i * 10,
                                                 i % 11, static_cast<int64_t>(i % 7)});
          !added.ok()) {
        return added;
      }
    }
    return writer.Finish({"ant", "bee", "cat", "dog", "eel", "fox", "gnu"});
  }
  std::string Bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> FilesBeside() {
    std::vector<std::string> names;
    const std::vector<FileInfo> files = *fs_.List(dir_.path());
    for (const FileInfo& file : files) names.push_back(file.name);
    return names;
  }

  FileSystem& fs_ = PosixFileSystem();
  TempDir dir_;
  const std::string path_ = dir_ / "train.idx";
};

TEST_F(SampleIndexTest, AnIdIsTheRankOfItsKeyInByteOrder) {
  constexpr uint64_t kSamples = 1000;
  ASSERT_OK(Write(fs_, kSamples));
  const auto index = SampleIndex::Open(path_);
  ASSERT_OK(index);
  std::map<std::string, uint64_t> sorted;
  for (uint64_t i = 0; i < kSamples; ++i) sorted[KeyOf(i)] = i;
  ASSERT_EQ((*index)->size(), kSamples);
  uint64_t id = 0;
  for (const auto& [key, i] : sorted) {
    const auto sample = (*index)->At(id);
    ASSERT_OK(sample);
    EXPECT_EQ(sample->key, key);
    EXPECT_EQ(sample->file, i % 3);
    EXPECT_EQ(sample->offset, i * 10);
    EXPECT_EQ(sample->size, i % 11);
    EXPECT_EQ(sample->label, static_cast<int64_t>(i % 7));
    const auto found = (*index)->Find(key);
    ASSERT_OK(found);
    EXPECT_EQ(*found, id++);
  }
  EXPECT_THAT((*index)->Find("class-0/picture-7000"), StatusIs(StatusCode::kNotFound));
  ASSERT_EQ((*index)->files(), 3u);
  const auto file = (*index)->FileAt(1);
  ASSERT_OK(file);
  EXPECT_EQ(file->path, "/data/shard-1.tar");
  EXPECT_EQ(file->size_bytes, kFileBytes);
  EXPECT_EQ((*index)->class_names().size(), 7u);
  EXPECT_EQ((*index)->least_label(), 0);
  EXPECT_EQ((*index)->greatest_label(), 6);
  EXPECT_EQ(FilesBeside(), std::vector<std::string>{"train.idx"});
}

TEST_F(SampleIndexTest, IsTheSameHoweverLittleMemoryItsWriterHas) {
  ASSERT_OK(Write(fs_, 1000));
  const std::string at_once = Bytes();
  for (const uint64_t memory : {0u, 1000u, 20'000u}) {
    ASSERT_OK(Write(fs_, 1000, memory));
    EXPECT_TRUE(Bytes() == at_once) << memory;
  }
  EXPECT_EQ(FilesBeside(), std::vector<std::string>{"train.idx"});
}

// A picture of an image folder is a file of its own.
TEST_F(SampleIndexTest, AsManyFilesAsSamplesTakeLittleMemory) {
  constexpr uint32_t kFiles = 200'000;
  const auto path_of = [](uint32_t i) {
    return absl::StrCat("/data/photos/class-", i % 1000, "/a-picture-", i, ".jpg");
  };
  const auto in_use = [] {
    const struct mallinfo2 info = ::mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  IndexWriter writer(fs_, path_, {.memory_bytes = 1u << 20});
  const size_t before = in_use();
  size_t most = before;
  for (uint32_t i = 0; i < kFiles; ++i) {
    const uint32_t file = writer.AddFile(path_of(i), i);
    ASSERT_OK(writer.Add({absl::StrCat("picture-", i), file, 0, i, 0}));
    if (i % 1000 == 0) most = std::max(most, in_use());
  }
  EXPECT_LT(most - before, 16u << 20);
  ASSERT_OK(writer.Finish({"all"}));
  const auto index = SampleIndex::Open(path_);
  ASSERT_OK(index);
  ASSERT_EQ((*index)->files(), kFiles);
  for (const uint32_t i : {0u, 1u, 77'777u, kFiles - 1}) {
    const auto found = (*index)->Find(absl::StrCat("picture-", i));
    ASSERT_OK(found);
    const auto place = (*index)->PlaceOf(*found);
    ASSERT_OK(place);
    EXPECT_EQ(place->file.path, path_of(i));
    EXPECT_EQ(place->file.size_bytes, i);
  }
  EXPECT_EQ(FilesBeside(), std::vector<std::string>{"train.idx"});
}

// Of the files that were put aside, too.
TEST_F(SampleIndexTest, ASampleMayLieInAnyFileThatWasAdded) {
  constexpr uint32_t kFiles = 30'000;
  IndexWriter writer(fs_, path_, {.memory_bytes = 1u << 16});
  for (uint32_t i = 0; i < kFiles; ++i) {
    const uint32_t file = writer.AddFile(absl::StrCat(std::string(100, 'f'), i), i);
    ASSERT_OK(writer.Add({absl::StrCat("a", i), file, 0, i, 0}));
  }
  for (const uint32_t i : {0u, 1u, 12'345u, kFiles - 2, kFiles - 1}) {
    EXPECT_OK(writer.Add({absl::StrCat("b", i), i, 0, i, 0}));
    const absl::Status outside = writer.Add({absl::StrCat("c", i), i, 1, i, 0});
    EXPECT_THAT(outside, StatusIs(StatusCode::kInvalidArgument));
    EXPECT_THAT(outside.message(), HasSubstr(absl::StrCat("f", i, ":")));
  }
  ASSERT_OK(writer.Finish({}));
}

// Where the bytes lie is no part of what the data are.
TEST_F(SampleIndexTest, ItsFingerprintNamesTheContent) {
  const auto fingerprint = [this](uint64_t offset, uint64_t size, int64_t label) {
    IndexWriter writer(fs_, path_);
    writer.AddFile(absl::StrCat("/data/", offset), kFileBytes);
    EXPECT_OK(writer.Add({"a", 0, offset, size, label}));
    EXPECT_OK(writer.Finish({}));
    return (*SampleIndex::Open(path_))->fingerprint();
  };
  const std::string one = fingerprint(0, 10, 1);
  EXPECT_EQ(fingerprint(512, 10, 1), one);
  EXPECT_NE(fingerprint(0, 11, 1), one);
  EXPECT_NE(fingerprint(0, 10, 2), one);
}

TEST_F(SampleIndexTest, ASplitMayBeEmpty) {
  IndexWriter writer(fs_, path_);
  ASSERT_OK(writer.Finish({}));
  const auto index = SampleIndex::Open(path_);
  ASSERT_OK(index);
  EXPECT_EQ((*index)->size(), 0u);
  EXPECT_EQ((*index)->greatest_label(), kNoLabel);
  EXPECT_THAT((*index)->Find("a"), StatusIs(StatusCode::kNotFound));
}

TEST_F(SampleIndexTest, OneSampleWithoutALabelLeavesTheSplitWithoutLabels) {
  IndexWriter writer(fs_, path_);
  writer.AddFile("/data/a", kFileBytes);
  ASSERT_OK(writer.Add({"a", 0, 0, 1, 5}));
  ASSERT_OK(writer.Add({"b", 0, 1, 1, kNoLabel}));
  ASSERT_OK(writer.Finish({}));
  EXPECT_EQ((*SampleIndex::Open(path_))->greatest_label(), kNoLabel);
}

TEST_F(SampleIndexTest, WhatCannotBeASampleIsRefused) {
  IndexWriter writer(fs_, path_);
  writer.AddFile("/data/a.tar", 100);
  EXPECT_THAT(writer.Add({"a", 0, 90, 11, 0}), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(writer.Add({"a", 0, UINT64_MAX, 2, 0}), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(writer.Add({"a", 1, 0, 1, 0}), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(writer.Add({"", 0, 0, 1, 0}), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(writer.Add({"a", 0, 0, 1, -2}), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(writer.Add({"a", 0, 0, 1, int64_t{1} << 31}), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_OK(writer.Add({"a", 0, 90, 10, 0}));
}

TEST_F(SampleIndexTest, AKeyThatComesTwiceIsRefusedWithItsFiles) {
  for (const uint64_t memory : {uint64_t{0}, uint64_t{1} << 20}) {
    IndexWriter writer(fs_, path_, {.memory_bytes = memory});
    writer.AddFile("/data/a.tar", 100);
    writer.AddFile("/data/b.tar", 100);
    ASSERT_OK(writer.Add({"key", 0, 0, 1, 0}));
    ASSERT_OK(writer.Add({"other", 0, 0, 1, 0}));
    ASSERT_OK(writer.Add({"key", 1, 0, 1, 0}));
    const absl::Status finished = writer.Finish({});
    EXPECT_THAT(finished, StatusIs(StatusCode::kInvalidArgument));
    EXPECT_THAT(finished.message(), HasSubstr("key"));
    EXPECT_THAT(finished.message(), HasSubstr("a.tar"));
    EXPECT_THAT(finished.message(), HasSubstr("b.tar"));
    EXPECT_TRUE(FilesBeside().empty());
  }
}

TEST_F(SampleIndexTest, AFullDiskAtAnyCallLeavesNoIndexOrAWholeOne) {
  for (int n = 1;; ++n) {
    FaultyFileSystem fs(fs_);
    fs.FailAt(n, absl::ResourceExhaustedError("no space left"));
    const absl::Status written = Write(fs, 200, /*memory_bytes=*/5000);
    const auto index = SampleIndex::Open(path_);
    EXPECT_EQ(index.ok() ? (*index)->size() : 200, 200u) << n;
    if (written.ok()) {
      EXPECT_OK(index);
      EXPECT_GT(n, 20);
      break;
    }
    // The next writer finds what this one left, and removes it.
    ASSERT_OK(Write(fs_, 200, 5000)) << n;
    EXPECT_EQ(FilesBeside(), std::vector<std::string>{"train.idx"}) << n;
    ASSERT_OK(fs_.RemoveFile(path_));
  }
}

TEST_F(SampleIndexTest, AWriterThatDoesNotFinishLeavesNothing) {
  {
    IndexWriter writer(fs_, path_, {.memory_bytes = 100});
    writer.AddFile("/data/a.tar", kFileBytes);
    for (int i = 0; i < 10; ++i) ASSERT_OK(writer.Add({absl::StrCat("key-", i), 0, 0, 1, 0}));
    EXPECT_FALSE(FilesBeside().empty());
  }
  EXPECT_TRUE(FilesBeside().empty());
}

// What a writer on another machine, or one that was killed yesterday, has left.
TEST_F(SampleIndexTest, PartsOfAnotherMachineStayForADay) {
  const auto begin = [this](const std::string& writer, int hours) {
    const std::string path = absl::StrCat(path_, ".", writer, ".run-0.part");
    std::ofstream(path) << "half";
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  begin("elsewhere-1-2", 23);
  begin("elsewhere-3-4", 25);
  begin(UniqueName(), 1);
  ASSERT_OK(Write(fs_, 100, /*memory_bytes=*/1000));
  EXPECT_EQ(FilesBeside(),
            (std::vector<std::string>{"train.idx", "train.idx.elsewhere-1-2.run-0.part"}));
}

// Whoever has mapped the one before reads on.
TEST_F(SampleIndexTest, AnIndexIsReplacedByAnotherFile) {
  ASSERT_OK(Write(fs_, 1000));
  const auto before = SampleIndex::Open(path_);
  ASSERT_OK(before);
  ASSERT_OK(Write(fs_, 5));
  for (uint64_t id = 0; id < 1000; ++id) ASSERT_OK((*before)->At(id));
  EXPECT_EQ((*SampleIndex::Open(path_))->size(), 5u);
}

// The index on a disk that machines share.
class MachineCopyTest : public SampleIndexTest {
 protected:
  MachineCopyTest() { ::setenv("TMPDIR", temporary_.path().c_str(), 1); }
  ~MachineCopyTest() override { ::unsetenv("TMPDIR"); }

  absl::StatusOr<std::unique_ptr<MappedFile>> Copy() {
    return MappedFile::OpenCopy(path_, [] { return absl::OkStatus(); });
  }
  std::vector<std::filesystem::path> Copies() {
    std::vector<std::filesystem::path> copies;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(temporary_.path()))
      if (entry.is_regular_file()) copies.push_back(entry.path());
    return copies;
  }
  static void Fill(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  const std::string bytes_ = std::string((3u << 20) + 7, 'x');
  TempDir temporary_;
};

// Another machine may remove it or cut it off.
TEST_F(MachineCopyTest, ACopyOutlivesItsFile) {
  Fill(path_, bytes_);
  const auto copy = Copy();
  ASSERT_OK(copy);
  std::filesystem::resize_file(path_, 0);
  EXPECT_EQ((*copy)->bytes(), bytes_);
  std::filesystem::remove(path_);
  EXPECT_THAT(Copy(), StatusIs(StatusCode::kNotFound));
  std::filesystem::create_directory(path_);
  EXPECT_THAT(Copy(), StatusIs(StatusCode::kUnavailable));
}

TEST_F(MachineCopyTest, ThereIsOneForAllWhoUseItAndNoneAfterwards) {
  Fill(path_, bytes_);
  std::vector<absl::StatusOr<std::unique_ptr<MappedFile>>> copies;
  for (int i = 0; i < 8; ++i) copies.emplace_back(absl::UnknownError("not yet"));
  std::vector<std::thread> ranks;
  for (auto& copy : copies) ranks.emplace_back([&] { copy = Copy(); });
  for (std::thread& rank : ranks) rank.join();
  for (const auto& copy : copies) {
    ASSERT_OK(copy);
    EXPECT_EQ((*copy)->bytes(), bytes_);
  }
  EXPECT_EQ(Copies().size(), 1u);
  copies.pop_back();
  EXPECT_EQ(Copies().size(), 1u);
  // One of other bytes is another.
  Fill(path_, std::string(100, 'y'));
  const auto other = Copy();
  ASSERT_OK(other);
  EXPECT_EQ((*other)->bytes(), std::string(100, 'y'));
  EXPECT_EQ(Copies().size(), 2u);
  copies.clear();
  EXPECT_EQ(Copies().size(), 1u);
}

TEST_F(MachineCopyTest, WhatAKilledProcessHasLeftIsMadeWholeOrRemoved) {
  Fill(path_, bytes_);
  std::filesystem::path left;
  {
    const auto copy = Copy();
    ASSERT_OK(copy);
    left = Copies().at(0);
  }
  ASSERT_TRUE(Copies().empty());
  Fill(left, "half");
  Fill(left.parent_path() / "of-another-index", "half");
  const auto copy = Copy();
  ASSERT_OK(copy);
  EXPECT_EQ((*copy)->bytes(), bytes_);
  EXPECT_EQ(Copies(), std::vector{left});
}

TEST_F(MachineCopyTest, ACopyThatIsStoppedOrFindsNoRoomLeavesNothing) {
  Fill(path_, bytes_);
  for (int n = 1;; ++n) {
    int asked = 0;
    const auto copy = MappedFile::OpenCopy(
        path_, [&] { return ++asked == n ? absl::CancelledError("stop") : absl::OkStatus(); });
    if (copy.ok()) {
      EXPECT_GT(n, 4) << "once for each MiB";
      break;
    }
    EXPECT_THAT(copy, StatusIs(StatusCode::kCancelled));
    EXPECT_TRUE(Copies().empty());
  }
  std::filesystem::resize_file(path_, std::filesystem::space(temporary_.path()).available);
  EXPECT_THAT(Copy(), StatusIs(StatusCode::kResourceExhausted, HasSubstr("TMPDIR")));
  EXPECT_TRUE(Copies().empty());
}

// Others might put something else there.
TEST_F(MachineCopyTest, AFolderThatOthersMayWriteToIsNotUsed) {
  Fill(path_, bytes_);
  ASSERT_OK(Copy());
  const std::filesystem::path folder =
      std::filesystem::directory_iterator(temporary_.path())->path();
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  EXPECT_THAT(Copy(), StatusIs(StatusCode::kPermissionDenied));
}

// Reads all there is of an index of any bytes.
void ReadWhole(const SampleIndex& index) {
  for (uint64_t id = 0; id < index.size(); ++id) {
    const auto sample = index.At(id);
    if (sample.ok()) {
      EXPECT_LT(sample->file, index.files());
      (void)index.Find(sample->key);
    } else {
      EXPECT_THAT(sample, StatusIs(StatusCode::kDataLoss));
    }
  }
  for (uint32_t file = 0; file < index.files(); ++file) (void)index.FileAt(file);
}

TEST_F(SampleIndexTest, AnIndexThatIsCutOffIsRefused) {
  ASSERT_OK(Write(fs_, 5));
  const std::string whole = Bytes();
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << whole.substr(0, bytes);
    const auto index = SampleIndex::Open(path_);
    EXPECT_THAT(index, StatusIs(StatusCode::kDataLoss)) << bytes;
    EXPECT_THAT(index.status().message(), HasSubstr("train.idx"));
  }
}

TEST_F(SampleIndexTest, AFlippedBitIsAnErrorOrAnotherPlace) {
  ASSERT_OK(Write(fs_, 5));
  const std::string whole = Bytes();
  for (size_t byte = 0; byte < whole.size(); ++byte) {
    for (const int bit : {0, 3, 7}) {
      std::string changed = whole;
      changed[byte] = static_cast<char>(changed[byte] ^ (1 << bit));
      std::ofstream(path_, std::ios::binary | std::ios::trunc) << changed;
      const auto index = SampleIndex::Open(path_);
      if (index.ok()) ReadWhole(**index);
    }
  }
}

TEST_F(SampleIndexTest, AnIndexThatIsNotThereIsNotFound) {
  EXPECT_THAT(SampleIndex::Open(path_), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(SampleIndex::Open(dir_.path()), StatusIs(StatusCode::kUnavailable));
}

}  // namespace
}  // namespace muster::worker
