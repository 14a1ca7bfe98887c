#include "common/object_store/cache/block_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/object_store/cache/block_file.h"
#include "common/os/unique_name.h"
#include "tests/support/no_locks.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::testing {
namespace {

constexpr uint64_t kBlock = 1000;

std::string Key(int i) {
  return absl::StrCat(absl::Hex(i * 0x1357911u, absl::kZeroPad16), std::string(48, 'f'));
}
std::string Content(int i) { return std::string(kBlock, static_cast<char>('a' + i % 26)); }
const uint64_t kStored = kBlock + BlockHeaderBytes(kBlock);

class BlockCacheTest : public ::testing::Test {
 protected:
  std::unique_ptr<BlockCache> Open(uint64_t max_bytes = 1 << 30) {
    BlockCacheOptions options;
    options.folder = folder_ / "cache";
    options.max_bytes = max_bytes;
    options.fetch_lock_wait = absl::Milliseconds(20);
    auto cache = BlockCache::Open(options, clock_);
    EXPECT_OK(cache);
    return *std::move(cache);
  }
  static bool Holds(BlockCache& cache, int i) {
    std::string read(kBlock, '\0');
    return cache.Read(Key(i), kBlock, 0, read.data(), kBlock) && read == Content(i);
  }
  std::string PathOf(int i) const {
    return folder_ / absl::StrCat("cache/blocks/", Key(i).substr(0, 2), "/", Key(i));
  }
  // So many seconds ago, in the time of the clock.
  void UseAt(int i, int64_t seconds_ago) { SetTime(PathOf(i), absl::Seconds(seconds_ago)); }
  void SetTime(const std::string& path, absl::Duration ago) {
    const timespec time = absl::ToTimespec(clock_.Now() - ago);
    const timespec times[2] = {time, time};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  // What somebody has begun to write.
  std::string Begin(const std::string& name, absl::Duration ago) {
    const std::string path = folder_ / ("cache/new/" + name);
    std::ofstream(path) << "half";
    SetTime(path, ago);
    return path;
  }
  std::vector<std::string> Temporaries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache/new")) {
      names.push_back(entry.path());
    }
    return names;
  }

  TempDir folder_;
  SimulatedClock clock_;
};

TEST_F(BlockCacheTest, WhatWasStoredIsReadAlsoByTheNext) {
  const auto cache = Open();
  EXPECT_FALSE(cache->Has(Key(1)));
  cache->Store(Key(1), Content(1));
  EXPECT_TRUE(cache->Has(Key(1)));
  EXPECT_TRUE(Holds(*cache, 1));
  EXPECT_TRUE(Holds(*Open(), 1));
  EXPECT_FALSE(Holds(*cache, 2));
  EXPECT_THAT(Temporaries(), ::testing::IsEmpty());
  EXPECT_EQ(cache->bytes_on_disk(), kStored);
}

TEST_F(BlockCacheTest, ADamagedBlockIsGone) {
  const auto cache = Open();
  cache->Store(Key(1), Content(1));
  {
    std::fstream file(PathOf(1), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(500);
    file << "x";
  }
  EXPECT_FALSE(Holds(*cache, 1));
  EXPECT_FALSE(cache->Has(Key(1)));
  cache->Store(Key(1), Content(1));
  EXPECT_TRUE(Holds(*cache, 1));
}

TEST_F(BlockCacheTest, TheLeastRecentlyUsedGoFirst) {
  const auto cache = Open(10 * kStored);
  for (int i = 0; i < 10; ++i) {
    cache->Store(Key(i), Content(i));
    UseAt(i, 1000 - i);
  }
  EXPECT_TRUE(Holds(*cache, 0));  // notes its use
  cache->Store(Key(10), Content(10));
  EXPECT_TRUE(Holds(*cache, 0));
  EXPECT_FALSE(Holds(*cache, 1));
  EXPECT_TRUE(Holds(*cache, 9));
  EXPECT_TRUE(Holds(*cache, 10));
  EXPECT_LE(cache->bytes_on_disk(), 10 * kStored);
}

TEST_F(BlockCacheTest, TheBoundHoldsWhileProcessesAndThreadsStore) {
  std::vector<std::unique_ptr<BlockCache>> caches;
  for (int c = 0; c < 4; ++c) caches.push_back(Open(20 * kStored));
  std::vector<std::thread> threads;
  for (int c = 0; c < 4; ++c) {
    threads.emplace_back([&, c] {
      for (int i = 0; i < 50; ++i) caches[c]->Store(Key(c * 50 + i), Content(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(caches[0]->bytes_on_disk(), 20 * kStored);
  EXPECT_GE(caches[0]->bytes_on_disk(), 15 * kStored);
}

TEST_F(BlockCacheTest, ASmallerBoundHoldsFromTheStart) {
  {
    const auto cache = Open();
    for (int i = 0; i < 10; ++i) cache->Store(Key(i), Content(i));
  }
  EXPECT_LE(Open(5 * kStored)->bytes_on_disk(), 5 * kStored);
}

TEST_F(BlockCacheTest, ABlockLargerThanTheCacheIsNotKept) {
  const auto cache = Open(kStored - 1);
  cache->Store(Key(1), Content(1));
  EXPECT_FALSE(cache->Has(Key(1)));
}

TEST_F(BlockCacheTest, AWrongSumIsPutRightAtTheStart) {
  {
    const auto cache = Open(10 * kStored);
    cache->Store(Key(1), Content(1));
  }
  for (const char* sum : {"99999999999999999999", "nonsense", "", "-1"}) {
    std::ofstream(folder_ / "cache/size", std::ios::trunc) << sum;
    const auto cache = Open(10 * kStored);
    cache->Store(Key(2), Content(2));
    EXPECT_TRUE(Holds(*cache, 1)) << sum;
    EXPECT_TRUE(Holds(*cache, 2)) << sum;
  }
}

TEST_F(BlockCacheTest, OnlyLeftoversThatNobodyOwnsAreRemoved) {
  Open();
  Begin(MachinePrefix() + "dead", absl::Minutes(1));
  const std::string alive = Begin(MachinePrefix() + "alive", absl::Hours(48));
  const UniqueFd owner(::open(alive.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(owner.get(), LOCK_EX), 0);
  // Whether another machine holds its file cannot be told here.
  const std::string elsewhere = Begin("elsewhere-1-2", absl::Hours(23));
  Begin("elsewhere-3-4", absl::Hours(25));
  Open();
  EXPECT_THAT(Temporaries(), ::testing::UnorderedElementsAre(alive, elsewhere));
}

TEST_F(BlockCacheTest, ADiskWithoutLocksKeepsBlocksAsWell) {
  for (const int error : {ENOLCK, ENOSYS, EOPNOTSUPP}) {
    const NoLocks no_locks(error);
    const auto cache = Open(10 * kStored);
    cache->Store(Key(error), Content(error));
    EXPECT_TRUE(Holds(*cache, error)) << error;
    EXPECT_THAT(Temporaries(), ::testing::IsEmpty());
  }
  const auto cache = Open(10 * kStored);
  EXPECT_EQ(cache->bytes_on_disk(), 3 * kStored);
  const std::string young = Begin(MachinePrefix() + "young", absl::Hours(23));
  Begin(MachinePrefix() + "old", absl::Hours(25));
  const NoLocks no_locks;
  Open();
  EXPECT_THAT(Temporaries(), ::testing::ElementsAre(young));
}

TEST_F(BlockCacheTest, ADiskThatTakesNothingIsWarnedOfOnce) {
  const auto cache = Open();
  cache->Store(Key(1), Content(1));
  // As a full disk: files of this process may not grow.
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full = {100, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  ::testing::internal::CaptureStderr();
  cache->Store(Key(2), Content(2));
  cache->Store(Key(3), Content(3));
  const std::string log = ::testing::internal::GetCapturedStderr();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(log, ::testing::HasSubstr("block_cache_cannot_store"));
  EXPECT_EQ(log.find("block_cache_cannot_store"), log.rfind("block_cache_cannot_store"));
  EXPECT_FALSE(cache->Has(Key(2)));
  EXPECT_TRUE(Holds(*cache, 1));
  EXPECT_THAT(Temporaries(), ::testing::IsEmpty());
  cache->Store(Key(2), Content(2));
  EXPECT_TRUE(Holds(*cache, 2));
}

TEST_F(BlockCacheTest, AFetchIsLockedKeyByKey) {
  const auto one = Open();
  const auto other = Open();
  UniqueFd held = one->LockForFetch(Key(1));
  EXPECT_TRUE(held.valid());
  EXPECT_FALSE(other->LockForFetch(Key(1)).valid());
  EXPECT_TRUE(other->LockForFetch(Key(2)).valid());
  held.Reset();
  EXPECT_TRUE(other->LockForFetch(Key(1)).valid());
}

TEST_F(BlockCacheTest, WhoGivesUpDoesNotWaitForTheLockOfAFetch) {
  BlockCacheOptions options;
  options.folder = folder_ / "cache";
  options.fetch_lock_wait = absl::Hours(100);
  ASSERT_OK_AND_ASSIGN(const auto cache, BlockCache::Open(options, clock_));
  const UniqueFd held = cache->LockForFetch(Key(1));
  int asked = 0;
  EXPECT_FALSE(cache->LockForFetch(Key(1), [&] { return ++asked == 3; }).valid());
}

TEST_F(BlockCacheTest, AFolderThatCannotBeIsAnError) {
  std::ofstream(folder_ / "file") << "x";
  BlockCacheOptions options;
  options.folder = folder_ / "file/cache";
  EXPECT_THAT(BlockCache::Open(options, clock_).status(), ::testing::Not(IsOk()));
  options.folder = "";
  EXPECT_THAT(BlockCache::Open(options, clock_).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace muster::testing
