#include "common/ckpt/checkpoint_root.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/checkpoint_builder.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster {
namespace {

using ::absl::StatusCode;
using ::muster::testing::FaultyFileSystem;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::muster::testing::WriteCheckpoint;
using ::testing::HasSubstr;

void WriteMarker(const std::string& root, const std::string& text) {
  std::ofstream(root + "/" + kRootMarker) << text;
}

std::vector<std::string> Names(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

TEST(CheckpointRoot, AClaimMakesTheFolderAndItsMarker) {
  TempDir dir;
  const std::string root = dir / "a/b";
  EXPECT_EQ(*ClaimRoot(PosixFileSystem(), {root, "abc1"}, {}, "me"), "abc1");
  EXPECT_EQ(*ReadRootMarker(PosixFileSystem(), root), "abc1");
  EXPECT_OK(CheckRoot(PosixFileSystem(), {root, "abc1"}));
  EXPECT_OK(ProbeRoot(PosixFileSystem(), {root, "abc1"}, "me"));
  EXPECT_THAT(Names(root), ::testing::ElementsAre(kRootMarker)) << "a probe leaves nothing";
}

TEST(CheckpointRoot, AMarkerThatIsThereIsTaken) {
  TempDir dir;
  WriteMarker(dir.path(), "other2\n");
  EXPECT_EQ(*ClaimRoot(PosixFileSystem(), {dir.path(), "abc1"}, {}, "me"), "other2");
}

TEST(CheckpointRoot, ATornMarkerIsMadeAnew) {
  for (const char* left : {"", "\n", "ab", "NOT AN IDENTITY\n"}) {
    TempDir dir;
    WriteMarker(dir.path(), left);
    const auto claimed = ClaimRoot(PosixFileSystem(), {dir.path(), "abc1"}, {}, "me");
    ASSERT_OK(claimed);
    EXPECT_EQ(*claimed, "abc1");
  }
}

TEST(CheckpointRoot, AClaimThatIsNotAskedForAnyMoreMakesNothing) {
  TempDir dir;
  const auto never = [] { return false; };
  const CheckpointRoot absent{.path = dir / "a/b", .identity = "abc1"};
  EXPECT_THAT(ClaimRoot(PosixFileSystem(), absent, {}, "me", never),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("too late")));
  EXPECT_FALSE(std::filesystem::exists(dir / "a"));
  // Asked for when the folder was looked at, and no more once it was probed.
  int asked = 0;
  const auto once = [&asked] { return ++asked == 1; };
  EXPECT_THAT(ClaimRoot(PosixFileSystem(), {dir.path(), "abc1"}, {}, "me", once),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("too late")));
  EXPECT_THAT(Names(dir.path()), ::testing::IsEmpty());
  // What is there already is read, and not made.
  WriteMarker(dir.path(), "other2\n");
  EXPECT_EQ(*ClaimRoot(PosixFileSystem(), {dir.path(), "abc1"}, {}, "me", never), "other2");
}

TEST(CheckpointRoot, AnotherFolderIsNoneAndSaysSo) {
  TempDir dir;
  const CheckpointRoot root{dir.path(), "abc1"};
  EXPECT_THAT(CheckRoot(PosixFileSystem(), root),
              StatusIs(StatusCode::kUnavailable, HasSubstr("is it mounted?")));
  EXPECT_THAT(CheckRoot(PosixFileSystem(), root),
              StatusIs(StatusCode::kUnavailable,
                       HasSubstr("echo abc1 > " + dir.path() + "/" + kRootMarker)));
  EXPECT_THAT(CheckRoot(PosixFileSystem(), {dir / "none", "abc1"}),
              StatusIs(StatusCode::kUnavailable));
  WriteMarker(dir.path(), "other2\n");
  EXPECT_THAT(ProbeRoot(PosixFileSystem(), root, "me"),
              StatusIs(StatusCode::kUnavailable, HasSubstr("says other2, not abc1")));
}

TEST(CheckpointRoot, TheLineThatItsMessageNamesMakesAnEmptyFolderTheRoot) {
  TempDir dir;
  const CheckpointRoot root{.path = dir / "storage/ckpt", .identity = "abc1"};
  const absl::Status gone = CheckRoot(PosixFileSystem(), root);
  ASSERT_THAT(gone, StatusIs(StatusCode::kUnavailable, HasSubstr("mkdir -p ")));
  const std::string message(gone.message());
  ASSERT_EQ(std::system(message.substr(message.find("mkdir -p ")).c_str()), 0);
  EXPECT_OK(ProbeRoot(PosixFileSystem(), root, "me"));
}

TEST(CheckpointRoot, WithoutAnIdentityNothingIsChecked) {
  EXPECT_OK(CheckRoot(PosixFileSystem(), {"/nowhere", ""}));
}

TEST(CheckpointRoot, NoMarkerIsMadeWhereCheckpointsShouldBeAndAreNot) {
  TempDir dir;
  const std::string root = dir / "ckpt";
  EXPECT_THAT(ClaimRoot(PosixFileSystem(), {root, "abc1"}, {root + "/job-7/step-10.a1.g1"}, "me"),
              StatusIs(StatusCode::kUnavailable, HasSubstr("is the folder mounted here?")));
  EXPECT_FALSE(std::filesystem::exists(root)) << "nothing is made where the mount would be";
  ASSERT_OK_AND_ASSIGN(const auto written, WriteCheckpoint(PosixFileSystem(), root + "/job-7", {}));
  EXPECT_EQ(*ClaimRoot(PosixFileSystem(), {root, "abc1"},
                       {root + "/job-6/step-1.a1.g1", written.path}, "me"),
            "abc1");
}

TEST(CheckpointRoot, EachCallOfAProbeThatFailsIsSaid) {
  int n = 1;
  for (; n < 40; ++n) {
    TempDir dir;
    WriteMarker(dir.path(), "abc1\n");
    FaultyFileSystem fs(PosixFileSystem());
    fs.FailAt(n, absl::PermissionDeniedError("read-only file system"));
    const absl::Status probed = ProbeRoot(fs, {dir.path(), "abc1"}, "me");
    if (probed.ok()) break;
    EXPECT_THAT(probed, StatusIs(StatusCode::kUnavailable, HasSubstr("read-only file system")));
    EXPECT_THAT(probed.message(), HasSubstr(dir.path()));
    // What it left does not stand in the next one's way.
    EXPECT_OK(ProbeRoot(PosixFileSystem(), {dir.path(), "abc1"}, "me"));
  }
  EXPECT_EQ(n, 10);
}

TEST(CheckpointRoot, AFullOneIsToldFromOneThatIsNotSeen) {
  TempDir dir;
  WriteMarker(dir.path(), "abc1\n");
  FaultyFileSystem fs(PosixFileSystem());
  fs.FailAt(2, absl::ResourceExhaustedError("no space left"));
  EXPECT_THAT(ProbeRoot(fs, {dir.path(), "abc1"}, "me"),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr(dir.path())));
}

}  // namespace
}  // namespace muster
