#include "worker/agent/telemetry/log_tailer.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/agent/folders/finished_rank_folders.h"

namespace muster::worker {
namespace {

using ::muster::testing::FaultyFileSystem;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::HasSubstr;

constexpr RankKey kKey{7, 1, 1, 0};

class LogTailerTest : public ::testing::Test {
 protected:
  LogTailerTest() {
    std::filesystem::create_directories(folder_);
    Reopen();
  }
  void Reopen() {
    spool_.reset();
    auto spool = Spool::Open(fs_, {dir_ / "spool", 8 << 20, 1 << 20});
    EXPECT_OK(spool);
    spool_ = *std::move(spool);
  }
  void Write(const std::string& text, const char* file = kStdoutFile) {
    std::ofstream(folder_ + "/" + file, std::ios::app) << text;
  }
  // All text of one stream in the spool, checked to be without holes.
  std::string Text(bool is_stderr = false) {
    std::string text;
    const auto batch = spool_->Read({}, 100'000, 1 << 30);
    EXPECT_OK(batch);
    for (const v1::LogRecord& log : batch->records.logs()) {
      if (log.is_stderr() != is_stderr) continue;
      EXPECT_EQ(log.offset(), text.size());
      text += log.text();
    }
    return text;
  }

  TempDir dir_;
  FaultyFileSystem fs_{PosixFileSystem()};
  const std::string folder_ = dir_ / "ranks/" + RankFolderName(kKey);
  std::unique_ptr<Spool> spool_;
  Trash trash_{PosixFileSystem(), dir_ / "trash"};
};

TEST_F(LogTailerTest, TakesWholeLinesAndTheRestAtTheEnd) {
  LogTailer tailer(*spool_, kKey, folder_);
  EXPECT_OK(tailer.Pump(false));  // no files yet
  Write("one\ntw");
  Write("oops\n", kStderrFile);
  EXPECT_OK(tailer.Pump(false));
  EXPECT_EQ(Text(), "one\n");
  EXPECT_EQ(Text(true), "oops\n");
  Write("o");
  EXPECT_OK(tailer.Pump(false));
  EXPECT_EQ(Text(), "one\n");
  EXPECT_OK(tailer.Pump(true));
  EXPECT_EQ(Text(), "one\ntwo");
  EXPECT_EQ(tailer.taken_bytes(), 12u);
}

TEST_F(LogTailerTest, TellsWhenTheRankWrote) {
  LogTailer tailer(*spool_, kKey, folder_);
  Write("one\n");
  const timespec times[2] = {{0, UTIME_OMIT}, {1'700'000'000, 250'000'000}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (folder_ + "/" + kStdoutFile).c_str(), times, 0), 0);
  ASSERT_OK(tailer.Pump(false));
  const auto batch = spool_->Read({}, 10, 1 << 20);
  ASSERT_OK(batch);
  ASSERT_EQ(batch->records.logs_size(), 1);
  EXPECT_EQ(batch->records.logs(0).written_ms(), 1'700'000'000'250);
}

TEST_F(LogTailerTest, ALongLineIsCutAndALargeFileTakesSeveralTurns) {
  LogTailer tailer(*spool_, kKey, folder_);
  const std::string text(3 << 20, 'x');
  Write(text);
  int turns = 0;
  bool more = true;
  while (more) {
    ASSERT_OK_AND_ASSIGN(more, tailer.Pump(true));
    ++turns;
  }
  EXPECT_GT(turns, 2);
  EXPECT_EQ(Text(), text);
}

TEST_F(LogTailerTest, GoesOnWhereTheAgentBeforeStopped) {
  Write("one\n");
  EXPECT_OK(LogTailer(*spool_, kKey, folder_).Pump(false));
  Reopen();
  Write("two\n");
  EXPECT_OK(LogTailer(*spool_, kKey, folder_).Pump(false));
  EXPECT_EQ(Text(), "one\ntwo\n");
}

TEST_F(LogTailerTest, AFullDiskLosesNothing) {
  LogTailer tailer(*spool_, kKey, folder_);
  Write("one\n");
  fs_.FailAt(1, absl::ResourceExhaustedError("disk full"));
  EXPECT_THAT(tailer.Pump(false), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_OK(tailer.Pump(false));
  EXPECT_EQ(Text(), "one\n");
}

TEST_F(LogTailerTest, AFolderGoesOnlyWhenItsLogsAreAcknowledged) {
  RankFolders folders(fs_, trash_, dir_ / "ranks");
  FinishedRankFolders finished(*spool_, folders);
  Write("last words");
  EXPECT_OK(finished.AdoptLeftovers());
  EXPECT_EQ(finished.size(), 1u);
  finished.Work();
  EXPECT_EQ(Text(), "last words");
  finished.Work();
  EXPECT_TRUE(std::filesystem::exists(folder_));
  spool_->Acknowledge(spool_->end());
  finished.Work();
  EXPECT_FALSE(std::filesystem::exists(folder_));
  EXPECT_EQ(finished.size(), 0u);
  EXPECT_TRUE(spool_->MarkedRanks().empty());
}

TEST_F(LogTailerTest, MarksWithoutAFolderAreForgotten) {
  Write("x\n");
  EXPECT_OK(LogTailer(*spool_, kKey, folder_).Pump(true));
  std::filesystem::remove_all(folder_);
  RankFolders folders(fs_, trash_, dir_ / "ranks");
  FinishedRankFolders finished(*spool_, folders);
  EXPECT_OK(finished.AdoptLeftovers());
  EXPECT_TRUE(spool_->MarkedRanks().empty());
}

TEST_F(LogTailerTest, OfAStreamBeyondItsBoundOnlyTheEndIsTaken) {
  constexpr uint64_t kBound = 1000;
  LogTailer tailer(*spool_, kKey, folder_, kBound);
  Write(std::string(999, 'a') + "\n" + std::string(5000, 'b'));
  EXPECT_OK(tailer.Pump(false));
  const std::string capped = Text();
  EXPECT_EQ(capped.substr(0, 1000), std::string(999, 'a') + "\n");
  EXPECT_THAT(capped, HasSubstr("standard output of rank 0 has passed 1000 B"));
  Write("the last words");
  EXPECT_OK(tailer.Pump(false));
  EXPECT_EQ(Text(), capped);
  // As after the rank, by a tailer of its own.
  LogTailer last(*spool_, kKey, folder_, kBound);
  EXPECT_OK(last.Pump(true));
  EXPECT_OK(last.Pump(true));
  EXPECT_EQ(Text(), capped + "[muster: its end]\n" + std::string(5000, 'b') + "the last words");
}

TEST_F(LogTailerTest, TellsHowMuchWasWrittenUnlessItIsTooMuch) {
  LogTailer tailer(*spool_, kKey, folder_, /*max_stream_bytes=*/1000);
  EXPECT_THAT(tailer.WrittenBytes(), ::testing::Optional(::testing::ElementsAre(0, 0)));
  Write("one\ntwo");
  Write("error", kStderrFile);
  EXPECT_OK(tailer.Pump(false));
  EXPECT_THAT(tailer.WrittenBytes(), ::testing::Optional(::testing::ElementsAre(7, 5)));
  Write(std::string(1000, 'a'));
  EXPECT_EQ(tailer.WrittenBytes(), std::nullopt);
}

TEST_F(LogTailerTest, TheFileOfAStreamBeyondItsBoundIsEmptiedNowAndThen) {
  constexpr uint64_t kBound = 1000;
  LogTailer tailer(*spool_, kKey, folder_, kBound);
  Write(std::string(2000, 'a'));
  EXPECT_OK(tailer.Pump(false));
  Write(std::string(LogTailer::kMaxCappedFileBytes, 'b'));
  EXPECT_OK(tailer.Pump(false));
  EXPECT_EQ(std::filesystem::file_size(folder_ + "/" + kStdoutFile), 0u);
  Write("after");
  EXPECT_OK(tailer.Pump(false));
  EXPECT_OK(tailer.Pump(true));
  EXPECT_THAT(Text(), ::testing::EndsWith("[muster: its end]\nafter"));
  EXPECT_EQ(Text(/*is_stderr=*/true), "");
}

TEST_F(LogTailerTest, AFolderThatCannotBeMovedKeepsItsMarksForTheNextAgent) {
  Write("x\n");
  RankFolders folders(fs_, trash_, dir_ / "ranks");
  FinishedRankFolders finished(*spool_, folders);
  finished.Add(kKey);
  finished.Work();
  spool_->Acknowledge(spool_->end());
  // A file where the trash should be.
  std::ofstream(dir_ / "trash").put('x');
  finished.Work();
  EXPECT_EQ(finished.size(), 0u);
  EXPECT_EQ(spool_->LogMark(kKey, false), 2u) << "or its log would be sent twice";
}

TEST_F(LogTailerTest, WhatARankPutInPlaceOfItsLogsIsPassedOver) {
  std::ofstream(dir_ / "secret") << "secret\n";
  std::filesystem::create_symlink(dir_ / "secret", folder_ + "/" + kStdoutFile);
  ASSERT_EQ(::mkfifo((folder_ + "/" + kStderrFile).c_str(), 0600), 0);
  LogTailer tailer(*spool_, kKey, folder_, /*max_stream_bytes=*/1);
  EXPECT_EQ(tailer.Pump(false).value(), false);
  EXPECT_EQ(tailer.Pump(true).value(), false);
  EXPECT_EQ(Text(), "");
  std::filesystem::remove(folder_ + "/" + kStdoutFile);
  std::filesystem::create_directory(folder_ + "/" + kStdoutFile);
  EXPECT_EQ(tailer.Pump(true).value(), false);
  EXPECT_EQ(std::filesystem::file_size(dir_ / "secret"), 7u) << "nor was it emptied";
}

TEST_F(LogTailerTest, WhatARankPutInPlaceOfItsFolderIsPassedOver) {
  std::filesystem::create_directories(dir_ / "elsewhere");
  std::ofstream(dir_ / "elsewhere/stdout.log") << "secret\n";
  LogTailer tailer(*spool_, kKey, folder_, /*max_stream_bytes=*/1);
  std::filesystem::remove(folder_);
  std::filesystem::create_directory_symlink(dir_ / "elsewhere", folder_);
  EXPECT_EQ(tailer.Pump(false).value(), false);
  EXPECT_EQ(tailer.Pump(true).value(), false);
  EXPECT_THAT(tailer.WrittenBytes(), ::testing::Optional(::testing::ElementsAre(0, 0)));
  EXPECT_EQ(Text(), "");
  std::filesystem::remove(folder_);
  ASSERT_EQ(::mkfifo(folder_.c_str(), 0600), 0);
  EXPECT_EQ(tailer.Pump(true).value(), false);
}

}  // namespace
}  // namespace muster::worker
