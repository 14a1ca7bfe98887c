#include "worker/data/index/data_indexes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/fs/file_lock.h"
#include "common/os/unique_name.h"
#include "tests/support/no_locks.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/data/formats/support/format_bytes.h"
#include "tests/worker/data/formats/support/lmdb_writer.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::LmdbWriter;
using ::muster::testing::NoLocks;
using ::muster::testing::StatusIs;
using ::muster::testing::TarEnd;
using ::muster::testing::TarFile;
using ::muster::testing::TempDir;
using ::testing::HasSubstr;

class DataIndexesTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes = "picture") {
    const std::filesystem::path path = dir_ / ("data/" + name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  absl::StatusOr<DataIndexes> Open(bool anew = false) {
    IndexOptions options;
    options.path = dir_ / "data";
    options.folder = folder();
    options.anew = anew;
    options.progress = [this](uint64_t samples) {
      ++calls_;
      samples_ = samples;
    };
    if (goes_on_) options.goes_on = goes_on_;
    options.patience = patience_;
    return OpenOrMakeIndexes(data_, fs_, options);
  }
  std::vector<uint64_t> Sizes() {
    const absl::StatusOr<DataIndexes> data = Open();
    EXPECT_OK(data);
    if (!data.ok()) return {};
    return {data->splits[0]->size(), data->splits[1]->size(), data->splits[2]->size()};
  }
  std::string folder() const { return dir_ / "index"; }
  // The path of the only data set's lock.
  std::string LockPath() {
    const std::string train = IndexOf("train");
    return train.substr(0, train.size() - std::string("train.idx").size()) + "lock";
  }
  // The path of the only index of that split.
  std::string IndexOf(const std::string& split) {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(folder())) {
      if (entry.path().string().find("." + split + ".idx") != std::string::npos)
        found = entry.path();
    }
    return found;
  }

  FileSystem& fs_ = PosixFileSystem();
  AnyFileSystem data_{fs_};
  TempDir dir_;
  std::function<bool()> goes_on_;
  absl::Duration patience_ = absl::InfiniteDuration();
  std::atomic<int> calls_ = 0;
  std::atomic<uint64_t> samples_ = 0;  // as the last call said
};

TEST_F(DataIndexesTest, OneHeldOutSetServesAsBoth) {
  for (const char* name : {"train/a/1.jpg", "train/a/2.jpg", "train/b/3.jpg", "val/a/4.jpg"})
    Write(name);
  EXPECT_EQ(Sizes(), (std::vector<uint64_t>{3, 1, 1}));
  EXPECT_EQ(samples_, 4u);
  Write("test/a/5.jpg");
  Write("test/b/6.jpg");
  EXPECT_EQ(Sizes(), (std::vector<uint64_t>{3, 1, 2}));
  EXPECT_EQ(samples_, 6u);
}

// The pictures of a folder are files: each split lists its own.
TEST_F(DataIndexesTest, ASplitThatIsHeldOutNamesOnlyItsFiles) {
  for (int i = 0; i < 100; ++i) Write(absl::StrCat("train/", i % 2, "/", i, ".jpg"));
  const absl::StatusOr<DataIndexes> data = Open();
  ASSERT_OK(data);
  for (const std::unique_ptr<SampleIndex>& index : data->splits) {
    EXPECT_GT(index->size(), 0u);
    EXPECT_EQ(index->files(), index->size());
    for (uint64_t id = 0; id < index->size(); ++id) {
      const auto place = index->PlaceOf(id);
      ASSERT_OK(place);
      EXPECT_THAT(std::string(place->file.path),
                  HasSubstr(absl::StrCat("/", place->sample.key, ".jpg")));
    }
  }
}

// An agent ends a look that writes more than a MiB.
TEST_F(DataIndexesTest, WhatIsLeftOutOfManyShardsTakesFewLines) {
  constexpr int kShards = 300, kWithoutPicture = 25;
  for (int shard = 0; shard < kShards; ++shard) {
    std::string members = TarFile(absl::StrCat("s", shard, ".jpg"), "picture") +
                          TarFile(absl::StrCat("s", shard, ".cls"), "1");
    for (int i = 0; i < kWithoutPicture; ++i)
      members += TarFile(absl::StrCat("no-picture-", shard, "-", i, ".cls"), "0");
    Write(absl::StrCat("train-", shard, ".tar"), members + TarEnd());
  }
  ::testing::internal::CaptureStderr();
  const absl::StatusOr<DataIndexes> data = Open();
  const std::string log = ::testing::internal::GetCapturedStderr();
  ASSERT_OK(data);
  EXPECT_EQ(samples_, uint64_t{kShards});
  EXPECT_LT(log.size(), 50'000u);
  // Twenty of a file and a line for the others of it; by the hundredth there are five files.
  EXPECT_THAT(log, HasSubstr("no-picture-"));
  EXPECT_THAT(log, HasSubstr("event=index_warnings_left_out"));
  EXPECT_THAT(log, HasSubstr(absl::StrCat("more=", kShards * kWithoutPicture - 4 * 25 - 16)));
}

// Labels are places among the classes of the training set, also where another set lacks one.
TEST_F(DataIndexesTest, AClassHasTheLabelOfTheTrainingSet) {
  for (const char* name : {"train/a/1.jpg", "train/b/2.jpg", "train/c/3.jpg", "val/c/4.jpg"})
    Write(name);
  const absl::StatusOr<DataIndexes> data = Open();
  ASSERT_OK(data);
  EXPECT_EQ(data->splits[1]->At(0)->label, 2);
  Write("val/d/5.jpg");
  const absl::StatusOr<DataIndexes> unknown = Open(/*anew=*/true);
  EXPECT_THAT(unknown, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(unknown.status().message(), HasSubstr("val"));
}

TEST_F(DataIndexesTest, IsOpenedWhereItIsThereAndMadeAgainWhereItIsBroken) {
  Write("train/a/1.jpg");
  Write("train/b/2.jpg");
  Write("val/a/3.jpg");
  ASSERT_OK(Open());
  const auto made = std::filesystem::last_write_time(IndexOf("train"));
  ASSERT_OK(Open());
  EXPECT_EQ(std::filesystem::last_write_time(IndexOf("train")), made);
  std::filesystem::resize_file(IndexOf("validation"), 20);
  EXPECT_EQ(Sizes(), (std::vector<uint64_t>{2, 1, 1}));
  EXPECT_NE(std::filesystem::last_write_time(IndexOf("train")), made);
  std::filesystem::remove(IndexOf("test"));
  EXPECT_EQ(Sizes(), (std::vector<uint64_t>{2, 1, 1}));
  // Those of two makings may not agree on the classes.
  const std::string train = IndexOf("train");
  std::filesystem::copy_file(train, dir_ / "old");
  ASSERT_OK(Open(/*anew=*/true));
  std::filesystem::rename(dir_ / "old", train);
  const absl::StatusOr<DataIndexes> again = Open();
  ASSERT_OK(again);
  EXPECT_EQ(again->splits[0]->set(), again->splits[1]->set());
}

TEST_F(DataIndexesTest, APathWithASlashAtItsEndHasTheSameIndex) {
  Write("train/a/1.jpg");
  Write("val/a/2.jpg");
  IndexOptions options;
  options.path = dir_ / "data/";
  options.folder = folder();
  const absl::StatusOr<DataIndexes> one = OpenOrMakeIndexes(data_, fs_, options);
  ASSERT_OK(one);
  const absl::StatusOr<DataIndexes> other = Open();
  ASSERT_OK(other);
  EXPECT_EQ(one->splits[0]->set(), other->splits[0]->set());
}

TEST_F(DataIndexesTest, IsMadeAgainWhenTheDataChange) {
  Write("train/a/1.jpg");
  Write("train/b/2.jpg");
  Write("val/a/3.jpg");
  EXPECT_EQ(Sizes(), (std::vector<uint64_t>{2, 1, 1}));
  Write("train/b/4.jpg");
  EXPECT_EQ(Sizes(), (std::vector<uint64_t>{3, 1, 1}));
  std::filesystem::remove(dir_ / "data/train/a/1.jpg");
  Write("train/c/5.jpg");
  EXPECT_EQ(Sizes(), (std::vector<uint64_t>{3, 1, 1}));
}

TEST_F(DataIndexesTest, DataThatCannotBeIndexedAreNamed) {
  const absl::StatusOr<DataIndexes> nowhere = Open();
  EXPECT_THAT(nowhere, StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(nowhere.status().message(), HasSubstr(dir_ / "data"));
  Write("train-0.npy");
  const absl::StatusOr<DataIndexes> numpy = Open();
  EXPECT_THAT(numpy, StatusIs(StatusCode::kUnimplemented));
  EXPECT_THAT(numpy.status().message(), HasSubstr("train.data.numpy"));
}

// A shard that is not whole leaves no index behind, and nothing else.
TEST_F(DataIndexesTest, AFailedIndexLeavesNothingButItsLock) {
  Write("train-0.tar", std::string(512, 'x'));
  EXPECT_FALSE(Open().ok());
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    EXPECT_EQ(entry.path().extension(), ".lock") << entry.path();
}

TEST_F(DataIndexesTest, WhoWaitsForAnotherProcessGivesSignsOfLife) {
  Write("train/a/1.jpg");
  Write("train/b/2.jpg");
  Write("val/a/3.jpg");
  ASSERT_OK(Open());
  const std::string train = IndexOf("train");
  auto held = FileLock::Try(LockPath());
  std::filesystem::remove(train);
  ASSERT_OK(held);
  ASSERT_TRUE(held->has_value());
  calls_ = 0;
  std::thread waiting([this] { EXPECT_OK(Open()); });
  while (calls_ < 3) std::this_thread::yield();  // once a second
  EXPECT_FALSE(std::filesystem::exists(train));
  held->reset();
  waiting.join();
  EXPECT_TRUE(std::filesystem::exists(train));
}

// It may take long until there is a part of an index to be seen.
TEST_F(DataIndexesTest, WhoMakesAnIndexTouchesItsLock) {
  for (int i = 0; i < 100; ++i) Write(absl::StrCat("train/", i % 2, "/", i, ".jpg"));
  ASSERT_OK(Open());
  const std::string lock = LockPath();
  const auto an_hour_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  bool is_made_old = false;
  goes_on_ = [&] {
    const auto other = FileLock::Try(lock);
    if (other.ok() && other->has_value()) return true;  // it is not being made yet
    if (!std::exchange(is_made_old, true)) std::filesystem::last_write_time(lock, an_hour_ago);
    // A slow disk.
    if (std::filesystem::last_write_time(lock) <= an_hour_ago)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return true;
  };
  ASSERT_OK(Open(/*anew=*/true));
  EXPECT_TRUE(is_made_old);
  EXPECT_GT(std::filesystem::last_write_time(lock), an_hour_ago);
}

TEST_F(DataIndexesTest, WhoWaitsIsPatientForAsLongAsTheLockIsTouched) {
  Write("train/a/1.jpg");
  Write("val/a/2.jpg");
  ASSERT_OK(Open());
  const std::string lock = LockPath();
  const auto held = FileLock::Try(lock);
  ASSERT_OK(held);
  patience_ = absl::ZeroDuration();
  const auto now = std::filesystem::file_time_type::clock::now();
  constexpr int kTouches = 30;
  int asked = 0;
  goes_on_ = [&] {
    if (++asked <= kTouches)
      std::filesystem::last_write_time(lock, now + std::chrono::seconds(asked));
    return true;
  };
  EXPECT_THAT(Open(/*anew=*/true), StatusIs(StatusCode::kUnavailable, HasSubstr(lock)));
  EXPECT_GT(asked, kTouches);
}

TEST_F(DataIndexesTest, AStopIsHeardAtAnyMoment) {
  for (int i = 0; i < 30; ++i) Write(absl::StrCat("train/", i % 2, "/", i, ".jpg"));
  Write("val/0/a.jpg");
  for (int n = 1;; ++n) {
    int asked = 0;
    goes_on_ = [&] { return ++asked != n; };
    const absl::StatusOr<DataIndexes> data = Open(/*anew=*/true);
    if (asked < n) {
      EXPECT_OK(data);
      EXPECT_GT(n, 60);
      break;
    }
    EXPECT_THAT(data, StatusIs(StatusCode::kCancelled)) << n;
    if (!std::filesystem::exists(folder())) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder()))
      EXPECT_NE(entry.path().extension(), ".part") << n;
  }
}

TEST_F(DataIndexesTest, SeveralFilesOfLmdbHaveTheClassesOfAll) {
  std::filesystem::create_directories(dir_ / "data");
  const std::vector<std::pair<std::string, std::string>> files = {
      {"train-0", "cat"}, {"train-1", "dog"}, {"val-0", "dog"}};
  for (const auto& [file, name] : files) {
    const std::string path = dir_ / ("data/" + file + ".mdb");
    LmdbWriter(path, MDB_NOSYNC | MDB_NOSUBDIR)
        .Put({{absl::StrCat(name, "/", file, ".jpg"), "\xff\xd8\xff" + std::string(90, 'x')}});
    std::filesystem::remove(path + "-lock");
  }
  const absl::StatusOr<DataIndexes> data = Open();
  ASSERT_OK(data);
  EXPECT_EQ(data->splits[0]->class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(data->splits[0]->size(), 2u);
  EXPECT_EQ(data->splits[1]->least_label(), 1);
}

// Each is read twice, first for the classes.
TEST_F(DataIndexesTest, AStopIsHeardAtEachPictureOfLmdb) {
  constexpr int kPictures = 101;
  std::filesystem::create_directories(dir_ / "data");
  LmdbWriter writer(dir_ / "data");
  for (int i = 0; i < kPictures; ++i) {
    const int number = i * 37 % kPictures;  // neighbours by key lie apart
    writer.Put({{absl::StrCat("class-", number % 2, "/", number, ".jpg"),
                 "\xff\xd8\xff" + std::string(9000, 'x')}});
  }
  int asked = 0;
  goes_on_ = [&] { return ++asked > 0; };
  ASSERT_OK(Open());
  // Adding and sorting them take as many.
  EXPECT_GT(asked, 4 * kPictures);
}

// On Lustre without the option flock, or NFS without a lock daemon.
TEST_F(DataIndexesTest, ADiskWithoutLocksHasIndexesAsWell) {
  for (int i = 0; i < 200; ++i) Write(absl::StrCat("train/", i % 3, "/", i, ".jpg"));
  const NoLocks no_locks;
  // What another process may still be writing.
  std::filesystem::create_directories(folder());
  ASSERT_OK(Open());
  const std::string part = IndexOf("train") + "." + UniqueName() + ".whole.part";
  std::ofstream(part) << "half";
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      const absl::StatusOr<DataIndexes> data = Open(/*anew=*/true);
      EXPECT_OK(data);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<uint64_t> sizes = Sizes();
  EXPECT_EQ(sizes[0] + sizes[1] + sizes[2], 200u);
  EXPECT_TRUE(std::filesystem::exists(part));
}

// Somebody may have removed the file of a lock that others wait for.
TEST_F(DataIndexesTest, ALockIsThatOfTheFileThatIsThere) {
  const std::string path = dir_ / "lock";
  auto first = FileLock::Try(path);
  ASSERT_OK(first);
  ASSERT_TRUE(first->has_value());
  std::filesystem::remove(path);
  const auto second = FileLock::Try(path);
  ASSERT_OK(second);
  EXPECT_TRUE(second->has_value());
  first->reset();
  const auto third = FileLock::Try(path);
  ASSERT_OK(third);
  EXPECT_FALSE(third->has_value());
}

class UnusedIndexesTest : public DataIndexesTest {
 protected:
  // Makes the index of a data set of that name, as if it was last used so many days ago.
  std::string MakeIndex(const std::string& data, int days) {
    for (const char* name : {"/train/a/1.jpg", "/train/b/2.jpg", "/val/a/3.jpg"}) {
      const std::filesystem::path path = dir_ / (data + name);
      std::filesystem::create_directories(path.parent_path());
      std::ofstream(path) << "picture";
    }
    const absl::StatusOr<DataIndexes> made = OpenIndex(data);
    EXPECT_OK(made);
    if (!made.ok()) return "";
    const std::string train = made->splits[0]->path();
    for (const auto& index : made->splits) SetAge(index->path(), days);
    return train;
  }
  absl::StatusOr<DataIndexes> OpenIndex(const std::string& data) {
    IndexOptions options;
    options.path = dir_ / data;
    options.folder = folder();
    return OpenOrMakeIndexes(data_, fs_, options);
  }
  void SetAge(const std::string& path, int days) {
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(24 * days));
  }
  static bool IsThere(const std::string& path) { return std::filesystem::exists(path); }
  size_t FilesInFolder() {
    size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder())) {
      (void)entry;
      ++files;
    }
    return files;
  }
};

TEST_F(UnusedIndexesTest, GoAfterThirtyDaysWhenAnotherIsMade) {
  const std::string recent = MakeIndex("recent", 29), old = MakeIndex("old", 31);
  std::ofstream(old + ".dead-1-2.run-0.part") << "half";
  SetAge(old + ".dead-1-2.run-0.part", 31);
  std::ofstream(dir_ / "index/notes.txt") << "somebody's";
  SetAge(dir_ / "index/notes.txt", 100);
  ASSERT_OK(OpenIndex("recent"));  // it is there
  EXPECT_TRUE(IsThere(old));
  MakeIndex("new", 0);
  EXPECT_FALSE(IsThere(old));
  EXPECT_TRUE(IsThere(recent));
  EXPECT_EQ(FilesInFolder(), 2u * 4 + 1);
}

TEST_F(UnusedIndexesTest, AnIndexIsUsedWhenItIsOpened) {
  const std::string old = MakeIndex("old", 31);
  ASSERT_OK(OpenIndex("old"));
  MakeIndex("new", 0);
  EXPECT_TRUE(IsThere(old));
}

TEST_F(UnusedIndexesTest, OneThatIsInUseStays) {
  const std::string old = MakeIndex("old", 0);
  {
    const absl::StatusOr<DataIndexes> used = OpenIndex("old");
    ASSERT_OK(used);
    for (const auto& index : used->splits) SetAge(index->path(), 31);
    MakeIndex("new", 0);
    for (const auto& index : used->splits) EXPECT_TRUE(IsThere(index->path()));
  }
  // Nor one that is being made.
  {
    const auto making = FileLock::Try(old.substr(0, old.find(".train")) + ".lock");
    ASSERT_OK(making);
    MakeIndex("newer", 0);
    EXPECT_TRUE(IsThere(old));
  }
  {
    const NoLocks no_locks;
    MakeIndex("newer still", 0);
    EXPECT_TRUE(IsThere(old));
  }
  MakeIndex("newest", 0);
  EXPECT_FALSE(IsThere(old));
}

// Eight at once, as the ranks of a machine: all see the same.
TEST_F(DataIndexesTest, ManyMayAskAtOnce) {
  for (int i = 0; i < 200; ++i) Write(absl::StrCat("train/", i % 3, "/", i, ".jpg"));
  Write("val/0/a.jpg");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this] {
      const absl::StatusOr<DataIndexes> data = Open();
      EXPECT_OK(data);
      EXPECT_EQ(data.ok() ? data->splits[0]->size() : 200, 200u);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace muster::worker
