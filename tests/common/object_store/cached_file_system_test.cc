#include "common/object_store/cache/cached_file_system.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <xxhash.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/unique_fd.h"
#include "common/object_store/remote_file_system.h"
#include "tests/chaos/crash_page.h"
#include "tests/common/object_store/scripted_server.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBlockBytes = 128 << 10;
constexpr absl::Duration kLong = absl::Seconds(60);

class CachedFileSystemTest : public ::testing::Test {
 protected:
  CachedFileSystemTest() {
    ::setenv("no_proxy", "127.0.0.1", 1);
    object_.resize(3'000'000);
    for (size_t i = 0; i < object_.size(); ++i) {
      object_[i] = static_cast<char>(i * 2654435761u >> 13);
    }
    StartServer([this](const ServerRequest& request, ScriptedServer::Answer& answer) {
      ServeObject(object_, etag_, request, answer);
    });
  }

  void StartServer(ScriptedServer::Script script) {
    server_ = std::make_unique<ScriptedServer>(std::move(script));
    url_ = server_->Url("/data.tar");
  }
  void OpenCache(uint64_t max_bytes = 1 << 30) {
    cached_.reset();
    BlockCacheOptions options;
    options.folder = folder_ / "cache";
    options.max_bytes = max_bytes;
    auto cache = BlockCache::Open(options, clock_);
    ASSERT_OK(cache);
    cache_ = *std::move(cache);
    RemoteOptions remote_options;
    remote_options.sleep = [](absl::Duration) {};
    remote_ = std::make_unique<RemoteFileSystem>(AwsSettings(), remote_options);
    CachedFileSystemOptions cached_options;
    cached_options.block_bytes = kBlockBytes;
    cached_options.prefetch_threads = 4;
    cached_ = std::make_unique<CachedFileSystem>(*remote_, *remote_, *cache_, cached_options);
  }
  absl::StatusOr<std::string> Read(uint64_t offset, uint64_t bytes) {
    std::string buffer(bytes, '\0');
    const absl::StatusOr<uint64_t> got = cached_->ReadAt(url_, offset, buffer.data(), bytes);
    if (!got.ok()) return got.status();
    buffer.resize(*got);
    return buffer;
  }
  std::string HashOfObject() const {
    char text[20];
    ::snprintf(text, sizeof text, "%016llx\n",
               static_cast<unsigned long long>(::XXH3_64bits(object_.data(), object_.size())));
    return text;
  }
  std::vector<std::string> ReaderCommand(double from = 0) const {
    return {BLOCK_CACHE_READER, url_, folder_ / "cache",
            absl::StrCat("--block-bytes=", kBlockBytes), absl::StrCat("--from=", from)};
  }

  TempDir folder_;
  SimulatedClock clock_;
  std::string object_;
  std::string etag_ = "\"one\"";
  std::string url_;
  std::unique_ptr<ScriptedServer> server_;
  std::unique_ptr<BlockCache> cache_;
  std::unique_ptr<RemoteFileSystem> remote_;
  std::unique_ptr<CachedFileSystem> cached_;
};

TEST_F(CachedFileSystemTest, AnyRangeIsReadAndEachByteIsFetchedOnce) {
  OpenCache();
  for (const uint64_t offset : {uint64_t{0}, kBlockBytes - 1, kBlockBytes, uint64_t{2'999'999}}) {
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{2}, uint64_t{500'000}}) {
      ASSERT_OK_AND_ASSIGN(const std::string read, Read(offset, bytes));
      EXPECT_TRUE(read == object_.substr(offset, bytes)) << offset << " " << bytes;
    }
  }
  ASSERT_OK_AND_ASSIGN(const std::string whole, cached_->ReadFile(url_, 3'000'000));
  EXPECT_TRUE(whole == object_);
  ASSERT_OK_AND_ASSIGN(const std::string behind, Read(3'000'000, 1));
  EXPECT_EQ(behind, "");
  EXPECT_EQ(server_->body_bytes(), object_.size());
  EXPECT_EQ(cached_->counts().fetched_bytes, object_.size());
  EXPECT_GT(cached_->counts().hits, 0u);
}

TEST_F(CachedFileSystemTest, TheNextRunFetchesNothing) {
  OpenCache();
  ASSERT_OK(cached_->ReadFile(url_, 3'000'000));
  OpenCache();
  ASSERT_OK_AND_ASSIGN(const std::string whole, cached_->ReadFile(url_, 3'000'000));
  EXPECT_TRUE(whole == object_);
  EXPECT_EQ(server_->body_bytes(), object_.size());
}

TEST_F(CachedFileSystemTest, ANewContentIsFetchedAnew) {
  OpenCache();
  ASSERT_OK(cached_->ReadFile(url_, 3'000'000));
  etag_ = "\"two\"";
  object_[5] ^= 1;
  OpenCache();
  ASSERT_OK_AND_ASSIGN(const std::string whole, cached_->ReadFile(url_, 3'000'000));
  EXPECT_TRUE(whole == object_);
}

TEST_F(CachedFileSystemTest, EightThreadsFetchABlockOnce) {
  absl::Notification all_wait;
  std::atomic<int> gets = 0;
  StartServer([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    if (request.method == "GET") {
      ++gets;
      all_wait.WaitForNotification();
    }
    ServeObject(object_, etag_, request, answer);
  });
  OpenCache();
  std::atomic<int> begun = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      ++begun;
      const auto read = Read(10, 100);
      EXPECT_OK(read);
      EXPECT_TRUE(read.ok() && *read == object_.substr(10, 100));
    });
  }
  EXPECT_TRUE(WaitUntil(kLong, [&] { return begun == 8 && gets == 1; }));
  all_wait.Notify();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(gets, 1);
  EXPECT_EQ(server_->body_bytes(), kBlockBytes);
}

TEST_F(CachedFileSystemTest, AnErrorIsSaidToAllAndTheNextTriesAgain) {
  std::atomic<bool> is_broken = true;
  StartServer([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    if (is_broken && request.method == "GET") return answer.Reply(403, {}, "no");
    ServeObject(object_, etag_, request, answer);
  });
  OpenCache();
  EXPECT_THAT(Read(0, 10), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(url_)));
  is_broken = false;
  EXPECT_OK(Read(0, 10));
}

TEST_F(CachedFileSystemTest, AReplacedFileIsAnError) {
  OpenCache();
  ASSERT_OK(Read(0, 10));
  etag_ = "\"two\"";
  EXPECT_OK(Read(0, 10));  // of the version that this run is held to
  EXPECT_THAT(Read(2 * kBlockBytes, 10), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(CachedFileSystemTest, WhatHasNoVersionIsNotKept) {
  StartServer([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    if (request.method == "HEAD") {
      return answer.Reply(200, {{"Content-Length", "5"}}, "", false);
    }
    answer.Reply(206, {{"Content-Range", "bytes 0-4/5"}}, "abcde");
  });
  OpenCache();
  ASSERT_OK_AND_ASSIGN(const std::string read, Read(0, 10));
  EXPECT_EQ(read, "abcde");
  EXPECT_EQ(cache_->bytes_on_disk(), 0u);
}

TEST_F(CachedFileSystemTest, AHintFetchesAheadAndNoByteTwice) {
  OpenCache();
  cached_->WillRead(url_, 0, ~uint64_t{0});
  cached_->WillRead(url_, ~uint64_t{0}, ~uint64_t{0});
  cached_->WillRead("http://127.0.0.1:1/gone", 0, 0);
  EXPECT_TRUE(WaitUntil(kLong, [&] { return cached_->counts().fetched_bytes == object_.size(); }));
  ASSERT_OK_AND_ASSIGN(const std::string whole, cached_->ReadFile(url_, 3'000'000));
  EXPECT_TRUE(whole == object_);
  EXPECT_EQ(server_->body_bytes(), object_.size());
}

// As on a disk that others have filled.
TEST_F(CachedFileSystemTest, WithoutRoomForABlockOnlyWhatIsAskedForIsFetched) {
  OpenCache(/*max_bytes=*/kBlockBytes / 2);
  ASSERT_OK(Read(10, 100));
  const uint64_t tried = server_->body_bytes();
  EXPECT_EQ(tried, kBlockBytes);
  for (const uint64_t offset : {uint64_t{10}, 3 * kBlockBytes - 50, uint64_t{2'999'999}}) {
    cached_->WillRead(url_, offset, 100);
    ASSERT_OK_AND_ASSIGN(const std::string read, Read(offset, 100));
    EXPECT_EQ(read, object_.substr(offset, 100));
  }
  cached_.reset();  // has done what it was told would be read
  EXPECT_EQ(server_->body_bytes() - tried, 201u);
}

TEST_F(CachedFileSystemTest, OneThatHadNoRoomIsTriedAgainAfterAMinute) {
  OpenCache();
  std::filesystem::remove_all(folder_ / "cache/new");
  ASSERT_OK(Read(10, 100));
  ASSERT_OK(Read(10, 100));
  EXPECT_EQ(server_->body_bytes(), kBlockBytes + 100);
  std::filesystem::create_directory(folder_ / "cache/new");
  clock_.Advance(absl::Minutes(1));
  ASSERT_OK(Read(10, 100));
  ASSERT_OK(Read(20, 100));
  EXPECT_EQ(server_->body_bytes(), 2 * kBlockBytes + 100);
  EXPECT_GT(cache_->bytes_on_disk(), kBlockBytes);
}

TEST_F(CachedFileSystemTest, HintsFetchSeveralBlocksAtATime) {
  std::atomic<int> at_once = 0;
  absl::Notification four;
  StartServer([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    if (request.method == "GET") {
      if (++at_once == 4) four.Notify();
      four.WaitForNotification();
    }
    ServeObject(object_, etag_, request, answer);
  });
  OpenCache();
  cached_->WillRead(url_, 0, 4 * kBlockBytes);
  EXPECT_TRUE(four.WaitForNotificationWithTimeout(kLong));
  cached_.reset();
  server_.reset();
}

TEST_F(CachedFileSystemTest, OneToEightProcessesFetchEachByteOnce) {
  for (const int processes : {1, 2, 8}) {
    std::filesystem::remove_all(folder_ / "cache");
    const uint64_t before = server_->body_bytes();
    std::vector<std::thread> waiters;
    for (int p = 0; p < processes; ++p) {
      waiters.emplace_back([&, p] {
        // Half of them in step, half spread over the file.
        const ProcessResult result = RunProcess(ReaderCommand(p % 2 == 0 ? 0 : p / 8.0), {}, kLong);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        EXPECT_EQ(result.out, HashOfObject());
      });
    }
    for (std::thread& waiter : waiters) waiter.join();
    EXPECT_EQ(server_->body_bytes() - before, object_.size()) << processes;
  }
}

TEST_F(CachedFileSystemTest, AProcessKilledWhileItFetchesHoldsNobody) {
  std::atomic<bool> stalls = true;
  std::atomic<int> stalled = 0;
  StartServer([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    if (request.method == "GET" && stalls) {
      ++stalled;
      return answer.Stall();
    }
    ServeObject(object_, etag_, request, answer);
  });
  Subprocess first(ReaderCommand(), Environment(), folder_ / "log");
  ASSERT_TRUE(WaitUntil(kLong, [&] { return stalled == 1; }));
  Subprocess second(ReaderCommand(), Environment(), folder_ / "second");
  stalls = false;
  first.Signal(SIGKILL);
  ASSERT_TRUE(first.Wait(kLong));
  ASSERT_TRUE(second.Wait(kLong));
  std::ifstream out(folder_ / "second");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(out), {}), HashOfObject());
  EXPECT_EQ(stalled, 1);
}

// Before each call that leaves something behind, one after the other: another process that comes
// later reads right, finds no block that is none, and tidies up.
TEST_F(CachedFileSystemTest, KillNineAnywhereLeavesNothingThatIsTakenForABlock) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's runtime must be loaded first";
#endif
  object_.resize(2 * kBlockBytes - 1);
  const std::string page_path = folder_ / "page";
  std::ofstream(page_path) << std::string(sizeof(CrashPage), '\0');
  const UniqueFd fd(::open(page_path.c_str(), O_RDWR | O_CLOEXEC));
  void* mapped =
      ::mmap(nullptr, sizeof(CrashPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  CrashPage& page = *static_cast<CrashPage*>(mapped);
  page.armed = 1;
  page.kill_kind = kAnyCall;
  bool was_killed = true;
  uint64_t at = 0;
  while (was_killed) {
    std::filesystem::remove_all(folder_ / "cache");
    page.calls = 0;
    page.killed = 0;
    page.kill_at = ++at;
    const ProcessResult first = RunProcess(ReaderCommand(),
                                           {{"LD_PRELOAD", CRASH_COUNTER},
                                            {kCrashPageVariable, page_path},
                                            {kCrashProgramVariable, "block_cache_reader"}},
                                           kLong);
    was_killed = page.killed != 0;
    EXPECT_EQ(first.exit_code, was_killed ? 128 + SIGKILL : 0) << at << first.err;
    const ProcessResult second = RunProcess(ReaderCommand(), {}, kLong);
    EXPECT_EQ(second.out, HashOfObject()) << at << second.err;
    EXPECT_THAT(second.err, ::testing::Not(HasSubstr("cached_block_dropped"))) << at;
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "cache/new")) << at;
  }
  ::munmap(mapped, sizeof(CrashPage));
  EXPECT_GT(at, 15u);
}

}  // namespace
}  // namespace muster::testing
