#include "worker/data/formats/parse/file_cursor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/fuzz/memory_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/formats/support/watched_reads.h"

namespace muster::worker {
namespace {

using ::muster::testing::MemoryFileSystem;
using ::muster::testing::StatusIs;
using ::muster::testing::WatchedReads;
using ::testing::HasSubstr;

std::string Counted(size_t size) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(i * 31 + i / 251);
  return bytes;
}

TEST(FileCursor, GivesTheBytesOfAnyPlaceThroughAnyWindow) {
  MemoryFileSystem files;
  const std::string bytes = Counted(5000);
  files.files()["/f"] = bytes;
  for (const ReadWindow window :
       {ReadWindow{1, 1}, ReadWindow{0, 0}, ReadWindow{7, 100}, ReadWindow{64, 64}, ReadWindow{}}) {
    ASSERT_OK_AND_ASSIGN(FileCursor cursor, FileCursor::Open(files, "/f", window));
    std::mt19937 random(1);
    for (int i = 0; i < 2000; ++i) {
      if (random() % 3 == 0) cursor.SeekTo(random() % 5100);
      const uint64_t at = cursor.position();
      const uint64_t count = random() % 40;
      if (random() % 4 == 0) {
        EXPECT_EQ(cursor.Skip(count).ok(), at + count <= 5000 || count == 0) << at;
        continue;
      }
      const auto read = cursor.Read(count);
      if (count > 0 && at + count > 5000) {
        EXPECT_THAT(read, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/f at byte")));
        continue;
      }
      ASSERT_OK(read);
      EXPECT_EQ(std::string(*read), count == 0 ? "" : bytes.substr(at, count));
    }
  }
}

TEST(FileCursor, ReadsMuchAtOnceOnlyWhereItIsUsed) {
  MemoryFileSystem files;
  files.files()["/f"] = std::string(8 << 20, 'x');
  WatchedReads watched(files);
  {
    ASSERT_OK_AND_ASSIGN(FileCursor cursor, FileCursor::Open(watched, "/f"));
    while (cursor.remaining() > 0) ASSERT_OK(cursor.Read(512));
    EXPECT_LT(watched.reads(), 16);
  }
  WatchedReads skipping(files);
  ASSERT_OK_AND_ASSIGN(FileCursor cursor, FileCursor::Open(skipping, "/f"));
  while (cursor.remaining() >= 200'000) {
    ASSERT_OK(cursor.Read(512));
    ASSERT_OK(cursor.Skip(200'000 - 512));
  }
  EXPECT_LE(skipping.bytes(), 42u * (16 << 10));
}

TEST(FileCursor, RefusesMoreThanItsBound) {
  MemoryFileSystem files;
  files.files()["/f"] = std::string(3 << 20, 'x');
  ASSERT_OK_AND_ASSIGN(FileCursor cursor, FileCursor::Open(files, "/f"));
  EXPECT_OK(cursor.Read(FileCursor::kMostReadBytes));
  EXPECT_THAT(cursor.Read(FileCursor::kMostReadBytes + 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most")));
}

TEST(FileCursor, TellsAFileThatShrank) {
  MemoryFileSystem files;
  files.files()["/f"] = std::string(100'000, 'x');
  ASSERT_OK_AND_ASSIGN(FileCursor cursor, FileCursor::Open(files, "/f"));
  files.files()["/f"].resize(50'000);
  cursor.SeekTo(49'990);
  EXPECT_THAT(cursor.Read(20), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("50000 now")));
  EXPECT_OK(cursor.Read(5));
}

}  // namespace
}  // namespace muster::worker
