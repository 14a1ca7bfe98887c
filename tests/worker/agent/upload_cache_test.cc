#include "worker/agent/upload_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/upload/pack_folder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::ElementsAre;

namespace files = std::filesystem;

class UploadCacheTest : public ::testing::Test {
 protected:
  PackedFolder Pack(const std::string& name, size_t bytes) {
    files::create_directories(dir_ / ("in-" + name));
    std::ofstream(dir_ / ("in-" + name + "/file")) << std::string(bytes, name[0]);
    return *PackFolder(dir_ / ("in-" + name));
  }
  UploadCache MakeCache(uint64_t max_bytes) {
    return UploadCache(
        PosixFileSystem(), dir_ / "cache",
        [this](const std::string& sha256) -> absl::StatusOr<std::string> {
          fetched_.push_back(sha256);
          const auto it = controller_.find(sha256);
          if (it == controller_.end()) return absl::NotFoundError("no such upload");
          return it->second;
        },
        max_bytes);
  }

  TempDir dir_;
  std::map<std::string, std::string> controller_;
  std::vector<std::string> fetched_;
};

TEST_F(UploadCacheTest, FetchesOnceAndUnpacksAsOftenAsAsked) {
  const PackedFolder a = Pack("a", 10);
  controller_[a.sha256] = a.archive;
  {
    UploadCache cache = MakeCache(1 << 20);
    ASSERT_OK(cache.Unpack(a.sha256, dir_ / "one"));
    ASSERT_OK(cache.Unpack(a.sha256, dir_ / "two"));
  }
  UploadCache later = MakeCache(1 << 20);
  ASSERT_OK(later.Unpack(a.sha256, dir_ / "three"));
  EXPECT_THAT(fetched_, ElementsAre(a.sha256));
  for (const char* folder : {"one", "two", "three"}) {
    EXPECT_EQ(files::file_size(dir_ / (std::string(folder) + "/file")), 10u);
  }
}

TEST_F(UploadCacheTest, WhatIsSomethingElseIsNotUnpacked) {
  const PackedFolder a = Pack("a", 10);
  UploadCache cache = MakeCache(1 << 20);
  EXPECT_THAT(cache.Unpack(a.sha256, dir_ / "out"), StatusIs(absl::StatusCode::kNotFound));
  controller_[a.sha256] = Pack("b", 10).archive;
  EXPECT_THAT(cache.Unpack(a.sha256, dir_ / "out"), StatusIs(absl::StatusCode::kDataLoss));
  controller_[a.sha256] = a.archive.substr(0, a.archive.size() - 1);
  EXPECT_THAT(cache.Unpack(a.sha256, dir_ / "out"), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(cache.Unpack("../../etc", dir_ / "out"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_FALSE(files::exists(dir_ / "out"));
  controller_[a.sha256] = a.archive;
  ASSERT_OK(cache.Unpack(a.sha256, dir_ / "out"));
}

TEST_F(UploadCacheTest, ABrokenFileInTheCacheIsFetchedAgain) {
  const PackedFolder a = Pack("a", 10);
  controller_[a.sha256] = a.archive;
  UploadCache cache = MakeCache(1 << 20);
  ASSERT_OK(cache.Unpack(a.sha256, dir_ / "one"));
  std::ofstream(dir_ / ("cache/" + a.sha256)) << "rot";
  ASSERT_OK(cache.Unpack(a.sha256, dir_ / "two"));
  EXPECT_EQ(fetched_.size(), 2u);
}

TEST_F(UploadCacheTest, TheLeastLatelyUsedGoBeyondTheBound) {
  const PackedFolder a = Pack("a", 400), b = Pack("b", 400), c = Pack("c", 400);
  for (const PackedFolder* one : {&a, &b, &c}) controller_[one->sha256] = one->archive;
  UploadCache cache = MakeCache(1000);
  ASSERT_OK(cache.Unpack(a.sha256, dir_ / "a1"));
  ASSERT_OK(cache.Unpack(b.sha256, dir_ / "b1"));
  ASSERT_OK(cache.Unpack(a.sha256, dir_ / "a2"));
  ASSERT_OK(cache.Unpack(c.sha256, dir_ / "c1"));
  EXPECT_TRUE(files::exists(dir_ / ("cache/" + a.sha256)));
  EXPECT_FALSE(files::exists(dir_ / ("cache/" + b.sha256)));
  EXPECT_TRUE(files::exists(dir_ / ("cache/" + c.sha256)));
  EXPECT_TRUE(files::exists(dir_ / "b1/file")) << "an attempt's folder is its own";
}

}  // namespace
}  // namespace muster::worker
