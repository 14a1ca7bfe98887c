#include "worker/data/text/token_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "common/ckpt/block_hasher.h"
#include "common/object_store/cache/any_file_system.h"
#include "tests/common/object_store/scripted_server.h"
#include "tests/fuzz/memory_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/data/tokens/token_file_writers.h"
#include "worker/data/text/token_files.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::BytesOfNumbers;
using ::muster::testing::LlmcShard;
using ::muster::testing::MegatronIndex;
using ::muster::testing::MemoryFileSystem;
using ::muster::testing::ScriptedServer;
using ::muster::testing::ServeObject;
using ::muster::testing::ServerRequest;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> CountingFrom(int first, int count) {
  std::vector<T> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), static_cast<T>(first));
  return values;
}

// 40 tokens, 0 to 39, in three files of different writers and one without a token.
std::vector<std::string> WriteShards(const TempDir& dir) {
  FileSystem& fs = PosixFileSystem();
  EXPECT_OK(WriteFileAtomically(fs, dir / "1.bin", LlmcShard(CountingFrom<uint16_t>(0, 11))));
  EXPECT_OK(WriteFileAtomically(fs, dir / "2.bin", LlmcShard(std::vector<uint16_t>())));
  EXPECT_OK(WriteFileAtomically(fs, dir / "3.bin", BytesOfNumbers(CountingFrom<int32_t>(11, 2))));
  EXPECT_OK(WriteFileAtomically(fs, dir / "3.idx", MegatronIndex({1, 1}, 4, 4)));
  EXPECT_OK(WriteFileAtomically(fs, dir / "4.bin", BytesOfNumbers(CountingFrom<uint16_t>(13, 27))));
  return {dir / "1.bin", dir / "2.bin", dir / "3.bin", dir / "4.bin"};
}

TEST(TokenWindowsTest, RowsAreCutFromAllFilesAsIfTheyWereOne) {
  const TempDir dir;
  const auto paths = WriteShards(dir);
  for (const int64_t context : {1, 2, 3, 7, 13, 38, 39}) {
    ASSERT_OK_AND_ASSIGN(const TokenWindows windows,
                         TokenWindows::Open(PosixFileSystem(), paths, context, 40));
    EXPECT_EQ(windows.tokens(), 40);
    EXPECT_EQ(windows.rows(), 39 / context);
    std::vector<int64_t> row(static_cast<size_t>(context) + 1);
    for (int64_t i = windows.rows() - 1; i >= 0; --i) {
      ASSERT_OK(windows.ReadRow(i, row.data()));
      EXPECT_EQ(
          row, CountingFrom<int64_t>(static_cast<int>(i * context), static_cast<int>(context) + 1));
    }
  }
}

TEST(TokenWindowsTest, RowsAreThoseOfATokenStore) {
  const TempDir dir;
  FileSystem& fs = PosixFileSystem();
  TokenStore store(1000);
  BlockHasher hasher;
  const auto paths = WriteShards(dir);
  for (const std::string& path : paths) {
    ASSERT_OK_AND_ASSIGN(const TokenSpan span, FindTokens(fs, path));
    ASSERT_OK(AppendFile(fs, path, span, hasher, store));
  }
  ASSERT_OK_AND_ASSIGN(const TokenWindows windows, TokenWindows::Open(fs, paths, 5, 1000));
  std::vector<int64_t> row(6), stored(6);
  for (int64_t i = 0; i < windows.rows(); ++i) {
    ASSERT_OK(windows.ReadRow(i, row.data()));
    WidenTokens(store.Stored(5 * i, 6), 6, stored.data());
    EXPECT_EQ(row, stored);
  }
}

TEST(TokenWindowsTest, ATokenOutsideOfTheVocabularyIsNamed) {
  const TempDir dir;
  ASSERT_OK_AND_ASSIGN(const TokenWindows windows,
                       TokenWindows::Open(PosixFileSystem(), WriteShards(dir), 10, 33));
  std::vector<int64_t> row(11);
  ASSERT_OK(windows.ReadRow(1, row.data()));
  EXPECT_OK(windows.ReadRow(0, row.data()));
  // 33 is the 21st token of the last file.
  EXPECT_THAT(windows.ReadRow(2, row.data()), StatusIs(StatusCode::kOk));
  ASSERT_OK_AND_ASSIGN(const TokenWindows fewer,
                       TokenWindows::Open(PosixFileSystem(), {dir / "4.bin"}, 10, 33));
  EXPECT_THAT(fewer.ReadRow(1, row.data()),
              StatusIs(StatusCode::kOutOfRange,
                       AllOf(HasSubstr("4.bin: token 20 is 33"), HasSubstr("vocabulary has 33"))));
}

TEST(TokenWindowsTest, AFileThatBecameShorterIsAnError) {
  MemoryFileSystem fs;
  fs.files()["/a.bin"] = BytesOfNumbers(CountingFrom<uint16_t>(0, 20));
  ASSERT_OK_AND_ASSIGN(const TokenWindows windows, TokenWindows::Open(fs, {"/a.bin"}, 9, 100));
  fs.files()["/a.bin"].resize(30);
  std::vector<int64_t> row(10);
  EXPECT_OK(windows.ReadRow(0, row.data()));
  EXPECT_THAT(windows.ReadRow(1, row.data()),
              StatusIs(StatusCode::kDataLoss, HasSubstr("/a.bin ended")));
}

TEST(TokenWindowsTest, NoTokenAndOneTokenMakeNoRow) {
  MemoryFileSystem fs;
  fs.files()["/a.bin"] = "";
  fs.files()["/b.bin"] = "12";
  for (const std::vector<std::string>& paths :
       {std::vector<std::string>{}, {"/a.bin"}, {"/a.bin", "/b.bin"}}) {
    ASSERT_OK_AND_ASSIGN(const TokenWindows windows, TokenWindows::Open(fs, paths, 1, 100));
    EXPECT_EQ(windows.rows(), 0);
    EXPECT_OK(windows.Fingerprint());
  }
}

TEST(TokenWindowsTest, TheFingerprintIsOfSixteenBlocksOfEachFile) {
  const TempDir dir;
  std::vector<std::string> paths;
  BlockHasher hasher;
  hasher.Update("8:1000:");
  for (const int file : {0, 1}) {
    const std::string bytes = BytesOfNumbers(CountingFrom<uint16_t>(file, 50'000));
    paths.push_back(dir / std::to_string(file));
    ASSERT_OK(WriteFileAtomically(PosixFileSystem(), paths.back(), bytes));
    hasher.Update("2:100000:");
    const size_t last = bytes.size() - 4096;
    for (size_t i = 0; i < 15; ++i) hasher.Update(bytes.substr(last / 15 * i, 4096));
    hasher.Update(bytes.substr(last, 4096));
  }
  ASSERT_OK_AND_ASSIGN(const TokenWindows windows,
                       TokenWindows::Open(PosixFileSystem(), paths, 8, 1000));
  ASSERT_OK_AND_ASSIGN(const std::string fingerprint, windows.Fingerprint());
  EXPECT_EQ(fingerprint, "token-windows-v1:" + HashToHex(hasher.Finish().whole));
}

// Blocks of the cache would be most of the data: each rank would fetch them before its first step.
TEST(TokenWindowsTest, ShardsFarAwayAreLookedAtOnlyWhereTheFingerprintIs) {
  const TempDir dir;
  std::vector<std::string> paths, urls;
  std::map<std::string, std::string> objects;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "x_train_" + std::to_string(i) + ".bin";
    objects["/" + name] = LlmcShard(CountingFrom<uint16_t>(i, 500'000));
    ASSERT_OK(WriteFileAtomically(PosixFileSystem(), dir / name, objects["/" + name]));
    paths.push_back(dir / name);
  }
  ScriptedServer server([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    const auto found = objects.find(request.target);
    if (found == objects.end()) return answer.Reply(404, {}, "", request.method != "HEAD");
    ServeObject(found->second, "\"" + request.target + "\"", request, answer);
  });
  for (const auto& [target, object] : objects) urls.push_back(server.Url(target));
  std::sort(paths.begin(), paths.end());
  AnyFileSystem files(PosixFileSystem(), {.cache_folder = dir / "cache"});
  ASSERT_OK_AND_ASSIGN(const TokenWindows there, TokenWindows::Open(files, urls, 8, 70'000));
  ASSERT_OK_AND_ASSIGN(const std::string fingerprint, there.Fingerprint());
  ASSERT_OK_AND_ASSIGN(const TokenWindows here,
                       TokenWindows::Open(PosixFileSystem(), paths, 8, 70'000));
  EXPECT_EQ(fingerprint, here.Fingerprint().value_or(""));
  EXPECT_EQ(server.body_bytes(), 40u * (1024 + 16 * 4096));
}

// As where ranks and their threads are as many as the user may have. Root is bound by nothing, so
// the child becomes somebody else.
TEST(TokenWindowsDeathTest, WithoutAThreadToSpareShardsAreLookedAtOneByOne) {
  MemoryFileSystem fs;
  fs.files()["/a.bin"] = fs.files()["/b.bin"] = std::string(100'000, '\1');
  const auto look = [&] {
    const auto windows = TokenWindows::Open(fs, {"/a.bin", "/b.bin"}, 8, 1000);
    return windows.ok() ? windows->Fingerprint().value_or("unreadable") : "no windows";
  };
  const std::string before = look();
  const auto look_alone = [&] {
    const rlimit none = {0, 0};
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    if (::setrlimit(RLIMIT_NPROC, &none) != 0) ::_exit(3);
    pthread_t thread;
    const auto nothing = [](void*) -> void* { return nullptr; };
    if (::pthread_create(&thread, nullptr, nothing, nullptr) == 0) ::_exit(4);
    ::_exit(look() == before ? 0 : 1);
  };
  EXPECT_EXIT(look_alone(), ::testing::ExitedWithCode(0), "");
}

TEST(TokenWindowsTest, TheFingerprintFollowsSizesAndSamples) {
  MemoryFileSystem fs;
  fs.files()["/a.bin"] = std::string(100'000, '\1');
  const auto fingerprint = [&](int64_t context) {
    const auto windows = TokenWindows::Open(fs, {"/a.bin"}, context, 1000);
    return windows.ok() ? windows->Fingerprint().value_or("unreadable") : "no windows";
  };
  const std::string before = fingerprint(8);
  EXPECT_EQ(fingerprint(8), before);
  EXPECT_NE(fingerprint(9), before);
  fs.files()["/a.bin"].back() = '\2';
  EXPECT_NE(fingerprint(8), before);
  fs.files()["/a.bin"] = std::string(100'002, '\1');
  EXPECT_NE(fingerprint(8), before);
}

}  // namespace
}  // namespace muster::worker
