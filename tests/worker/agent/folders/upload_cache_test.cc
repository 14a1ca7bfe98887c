#include "worker/agent/folders/upload_cache.h"

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

namespace files = std::filesystem;

class UploadCacheTest : public ::testing::Test {
 protected:
  PackedFolder Pack(const std::string& name, size_t bytes) {
    files::create_directories(dir_ / ("in-" + name));
    std::ofstream(dir_ / ("in-" + name + "/file")) << std::string(bytes, name[0]);
    return *PackFolder(dir_ / ("in-" + name));
  }
  UploadCache MakeCache(uint64_t max_bytes) {
    return UploadCache(PosixFileSystem(), dir_ / "cache", max_bytes);
  }

  TempDir dir_;
};

TEST_F(UploadCacheTest, WhatIsPutThereIsThereForTheNextAgentToo) {
  const PackedFolder a = Pack("a", 10);
  {
    UploadCache cache = MakeCache(1 << 20);
    EXPECT_THAT(cache.Get(a.sha256), StatusIs(absl::StatusCode::kNotFound));
    ASSERT_OK(cache.Put(a.sha256, a.archive));
    EXPECT_EQ(*cache.Get(a.sha256), a.archive);
  }
  UploadCache later = MakeCache(1 << 20);
  EXPECT_EQ(*later.Get(a.sha256), a.archive);
}

TEST_F(UploadCacheTest, WhatIsSomethingElseIsNotKept) {
  const PackedFolder a = Pack("a", 10);
  UploadCache cache = MakeCache(1 << 20);
  EXPECT_THAT(cache.Put(a.sha256, Pack("b", 10).archive), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(cache.Put(a.sha256, a.archive.substr(0, a.archive.size() - 1)),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(cache.Get(a.sha256), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(cache.Get("../../etc"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(UploadCacheTest, ABrokenFileInTheCacheIsAsGoodAsNone) {
  const PackedFolder a = Pack("a", 10);
  UploadCache cache = MakeCache(1 << 20);
  ASSERT_OK(cache.Put(a.sha256, a.archive));
  std::ofstream(dir_ / ("cache/" + a.sha256)) << "rot";
  EXPECT_THAT(cache.Get(a.sha256), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_OK(cache.Put(a.sha256, a.archive));
  EXPECT_EQ(*cache.Get(a.sha256), a.archive);
}

TEST_F(UploadCacheTest, TheLeastLatelyUsedGoBeyondTheBound) {
  const PackedFolder a = Pack("a", 400), b = Pack("b", 400), c = Pack("c", 400);
  UploadCache cache = MakeCache(1000);
  ASSERT_OK(cache.Put(a.sha256, a.archive));
  ASSERT_OK(cache.Put(b.sha256, b.archive));
  ASSERT_OK(cache.Get(a.sha256));
  ASSERT_OK(cache.Put(c.sha256, c.archive));
  EXPECT_TRUE(files::exists(dir_ / ("cache/" + a.sha256)));
  EXPECT_FALSE(files::exists(dir_ / ("cache/" + b.sha256)));
  EXPECT_TRUE(files::exists(dir_ / ("cache/" + c.sha256)));
}

}  // namespace
}  // namespace muster::worker
