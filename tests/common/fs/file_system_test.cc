#include "common/fs/file_system.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster {
namespace {

using ::absl::StatusCode;
using ::muster::testing::FaultyFileSystem;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::HasSubstr;

class FileSystemTest : public ::testing::Test {
 protected:
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    const absl::StatusOr<std::vector<FileInfo>> files = fs_.List(dir_.path());
    for (const FileInfo& file : files.value()) names.push_back(file.name);
    return names;
  }

  TempDir dir_;
  FileSystem& fs_ = PosixFileSystem();
};

TEST_F(FileSystemTest, WhatIsAppendedCanBeReadWholeAndInParts) {
  ASSERT_OK_AND_ASSIGN(auto file, fs_.CreateExclusive(dir_ / "a"));
  ASSERT_OK(file->Append("hello "));
  ASSERT_OK(file->Append("world"));
  ASSERT_OK(file->Sync());
  ASSERT_OK(file->Close());
  EXPECT_EQ(fs_.ReadFile(dir_ / "a", 100).value(), "hello world");
  EXPECT_EQ(fs_.FileSize(dir_ / "a").value(), 11u);
  char buffer[8] = {};
  EXPECT_EQ(fs_.ReadAt(dir_ / "a", 6, buffer, sizeof buffer).value(), 5u);
  EXPECT_EQ(std::string(buffer), "world");
  EXPECT_EQ(fs_.ReadAt(dir_ / "a", 11, buffer, sizeof buffer).value(), 0u);
}

TEST_F(FileSystemTest, AnExistingFileIsNeverOpenedForWriting) {
  ASSERT_OK(WriteFileAtomically(fs_, dir_ / "a", "x"));
  EXPECT_THAT(fs_.CreateExclusive(dir_ / "a"), StatusIs(StatusCode::kAlreadyExists));
}

TEST_F(FileSystemTest, AClosedFileTakesNoMore) {
  ASSERT_OK_AND_ASSIGN(auto file, fs_.CreateExclusive(dir_ / "a"));
  ASSERT_OK(file->Close());
  EXPECT_THAT(file->Append("x"), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("closed")));
}

TEST_F(FileSystemTest, WhatIsNotThereIsNotFoundAndNamed) {
  const std::string path = dir_ / "none";
  char buffer[1];
  EXPECT_THAT(fs_.ReadFile(path, 1), StatusIs(StatusCode::kNotFound, HasSubstr(path)));
  EXPECT_THAT(fs_.ReadAt(path, 0, buffer, 1), StatusIs(StatusCode::kNotFound, HasSubstr(path)));
  EXPECT_THAT(fs_.FileSize(path), StatusIs(StatusCode::kNotFound, HasSubstr(path)));
  EXPECT_THAT(fs_.List(path), StatusIs(StatusCode::kNotFound, HasSubstr(path)));
  EXPECT_THAT(fs_.RemoveFile(path), StatusIs(StatusCode::kNotFound, HasSubstr(path)));
  EXPECT_THAT(fs_.Rename(path, dir_ / "b"), StatusIs(StatusCode::kNotFound, HasSubstr(path)));
  EXPECT_THAT(fs_.SyncDirectory(path), StatusIs(StatusCode::kNotFound, HasSubstr(path)));
  EXPECT_FALSE(fs_.Exists(path).value());
  EXPECT_OK(fs_.RemoveTree(path));
}

TEST_F(FileSystemTest, AFileUnderAFileIsNotFound) {
  ASSERT_OK(WriteFileAtomically(fs_, dir_ / "a", "x"));
  EXPECT_THAT(fs_.ReadFile(dir_ / "a/b", 1), StatusIs(StatusCode::kNotFound));
  EXPECT_FALSE(fs_.Exists(dir_ / "a/b").value());
}

TEST_F(FileSystemTest, ATooLargeFileIsRefusedBeforeItIsRead) {
  ASSERT_OK(WriteFileAtomically(fs_, dir_ / "a", "0123456789"));
  EXPECT_THAT(fs_.ReadFile(dir_ / "a", 9),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("10 bytes")));
}

TEST_F(FileSystemTest, AFifoOrAFolderIsNotReadAsAFile) {
  ASSERT_EQ(::mkfifo((dir_ / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(fs_.ReadFile(dir_ / "fifo", 1), StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(fs_.FileSize(dir_.path()), StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(fs_.ReadFile(dir_.path(), 1), StatusIs(StatusCode::kFailedPrecondition));
}

TEST_F(FileSystemTest, FoldersAreMadeWithTheirParentsAndAgain) {
  EXPECT_OK(fs_.MakeDirectories(dir_ / "a/b/c"));
  EXPECT_OK(fs_.MakeDirectories(dir_ / "a/b/c"));
  EXPECT_OK(fs_.MakeDirectories(dir_ / "a/b/d/"));
  EXPECT_TRUE(fs_.Exists(dir_ / "a/b/d").value());
}

TEST_F(FileSystemTest, AFileInTheWayOfAFolderIsNamed) {
  ASSERT_OK(WriteFileAtomically(fs_, dir_ / "a", "x"));
  EXPECT_THAT(fs_.MakeDirectories(dir_ / "a/b"),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr(dir_ / "a is not a folder")));
}

TEST_F(FileSystemTest, AListIsSortedAndTellsFoldersFromFiles) {
  ASSERT_OK(WriteFileAtomically(fs_, dir_ / "b", "four"));
  ASSERT_OK(fs_.MakeDirectories(dir_ / "a"));
  ASSERT_OK_AND_ASSIGN(const auto files, fs_.List(dir_.path()));
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].name, "a");
  EXPECT_TRUE(files[0].is_directory);
  EXPECT_EQ(files[1].name, "b");
  EXPECT_FALSE(files[1].is_directory);
  EXPECT_EQ(files[1].size_bytes, 4u);
}

TEST_F(FileSystemTest, AFolderIsNotRenamedOntoOneThatHoldsSomething) {
  ASSERT_OK(fs_.MakeDirectories(dir_ / "a"));
  ASSERT_OK(fs_.MakeDirectories(dir_ / "b/c"));
  EXPECT_THAT(fs_.Rename(dir_ / "a", dir_ / "b"), StatusIs(StatusCode::kAlreadyExists));
}

TEST_F(FileSystemTest, RemovingATreeDoesNotFollowLinks) {
  ASSERT_OK(fs_.MakeDirectories(dir_ / "kept"));
  ASSERT_OK(WriteFileAtomically(fs_, dir_ / "kept/file", "x"));
  ASSERT_OK(fs_.MakeDirectories(dir_ / "tree/deep"));
  ASSERT_OK(WriteFileAtomically(fs_, dir_ / "tree/deep/file", "x"));
  ASSERT_EQ(::symlink((dir_ / "kept").c_str(), (dir_ / "tree/link").c_str()), 0);
  EXPECT_OK(fs_.RemoveTree(dir_ / "tree"));
  EXPECT_THAT(Names(), ::testing::ElementsAre("kept"));
  EXPECT_TRUE(fs_.Exists(dir_ / "kept/file").value());
}

TEST_F(FileSystemTest, WithoutPermissionTheCodeSaysSo) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0500), 0);
  EXPECT_THAT(fs_.CreateExclusive(dir_ / "a"), StatusIs(StatusCode::kPermissionDenied));
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0700), 0);
}

TEST_F(FileSystemTest, AFullDiskLeavesNoHalfFile) {
  FaultyFileSystem full(fs_);
  full.FailAt(2, absl::ResourceExhaustedError("no space"));
  EXPECT_THAT(WriteFileAtomically(full, dir_ / "a", "x"), StatusIs(StatusCode::kResourceExhausted));
  EXPECT_FALSE(fs_.Exists(dir_ / "a").value());
}

TEST_F(FileSystemTest, AnAtomicWriteHasItsModeAndReplaces) {
  ASSERT_OK(WriteFileAtomically(fs_, dir_ / "a", "old"));
  ASSERT_OK(WriteFileAtomically(fs_, dir_ / "a", "new", 0600));
  EXPECT_EQ(fs_.ReadFile(dir_ / "a", 10).value(), "new");
  struct stat info;
  ASSERT_EQ(::stat((dir_ / "a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_THAT(Names(), ::testing::ElementsAre("a"));
}

TEST_F(FileSystemTest, AnAtomicWriteThatFailsAnywhereLeavesTheOldFileAndNoOther) {
  ASSERT_OK(WriteFileAtomically(fs_, dir_ / "a", "old"));
  for (int n = 1;; ++n) {
    FaultyFileSystem faulty(fs_);
    faulty.FailAt(n, absl::UnavailableError("planted"));
    const absl::Status status = WriteFileAtomically(faulty, dir_ / "a", "new");
    ASSERT_THAT(Names(), ::testing::ElementsAre("a")) << "operation " << n;
    const std::string content = fs_.ReadFile(dir_ / "a", 10).value();
    if (status.ok()) {
      EXPECT_EQ(content, "new");
      EXPECT_EQ(n, 7);  // create, append, sync, close, rename, syncdir, and then nothing to fail
      break;
    }
    EXPECT_THAT(status, StatusIs(StatusCode::kUnavailable));
    // Only the last one, the sync of the folder, comes after the rename.
    EXPECT_EQ(content, n < 6 ? "old" : "new") << "operation " << n;
  }
}

TEST(TemporaryNameTest, IsToldFromOtherNames) {
  EXPECT_TRUE(IsTemporaryName("pack.json.fd0c934599e09707.tmp"));
  for (const char* other :
       {"", ".tmp", "a.tmp", ".fd0c934599e09707.tmp.tar", "fd0c934599e09707.tmp",
        "afd0c934599e09707.tmp", "a.gd0c934599e09707.tmp", "a.d0c934599e09707.tmp"}) {
    EXPECT_FALSE(IsTemporaryName(other)) << other;
  }
}

}  // namespace
}  // namespace muster
