#include "worker/data/formats/image_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/data/formats/support/sample_list.h"
#include "tests/worker/data/formats/support/watched_reads.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::muster::testing::WatchedReads;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ImageFolderTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) {
    const std::filesystem::path path = dir_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  absl::StatusOr<ImageFolderIndex> Index() {
    list_ = SampleList();
    return IndexImageFolder(PosixFileSystem(), dir_.path(), options_, list_);
  }
  std::vector<WholeSample> Samples() {
    index_ = Index();
    EXPECT_OK(index_);
    const auto whole = list_.Read(PosixFileSystem());
    EXPECT_OK(whole);
    return whole.ok() ? *whole : std::vector<WholeSample>();
  }
  void ExpectRefused(const char* what) {
    EXPECT_THAT(Index(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  }

  TempDir dir_;
  ImageFolderOptions options_;
  SampleList list_;
  absl::StatusOr<ImageFolderIndex> index_;
};

TEST_F(ImageFolderTest, GivesPicturesOfClassesInByteOrder) {
  Write("dogs/b.JPEG", "db");
  Write("dogs/left/a.x.png", "dla");
  Write("cats/1.webp", "c1");
  Write("Zebras/1.jpg", "z");
  EXPECT_THAT(Samples(),
              ElementsAre(WholeSample{"Zebras/1", "z", 0}, WholeSample{"cats/1", "c1", 1},
                          WholeSample{"dogs/b", "db", 2}, WholeSample{"dogs/left/a", "dla", 2}));
  EXPECT_THAT(index_->classes, ElementsAre("Zebras", "cats", "dogs"));
  EXPECT_EQ(index_->report.samples, 4u);
}

TEST_F(ImageFolderTest, PassesOverHiddenFilesAndLeavesOutWhatIsNoPicture) {
  Write("cats/1.jpg", "c");
  Write("cats/.2.jpg", "x");
  Write("cats/.git/3.jpg", "x");
  Write(".cache/3.jpg", "x");
  Write("cats/notes.txt", "x");
  Write("cats/README", "x");
  Write("list.csv", "x");
  EXPECT_THAT(Samples(), ElementsAre(WholeSample{"cats/1", "c", 0}));
  EXPECT_EQ(index_->report.left_out, 3u);
}

TEST_F(ImageFolderTest, FollowsLinksToClassesAndPictures) {
  Write("elsewhere/cats/1.jpg", "cat one");
  std::filesystem::create_directories(dir_ / "root/dogs");
  std::filesystem::create_directory_symlink(dir_ / "elsewhere/cats", dir_ / "root/cats");
  std::filesystem::create_symlink(dir_ / "elsewhere/cats/1.jpg", dir_ / "root/dogs/2.jpg");
  SampleList list;
  ASSERT_OK(IndexImageFolder(PosixFileSystem(), dir_ / "root", {}, list));
  ASSERT_OK_AND_ASSIGN(const auto whole, list.Read(PosixFileSystem()));
  EXPECT_THAT(
      whole, ElementsAre(WholeSample{"cats/1", "cat one", 0}, WholeSample{"dogs/2", "cat one", 1}));
  std::filesystem::create_directory_symlink(dir_ / "root", dir_ / "root/dogs/loop");
  EXPECT_THAT(
      IndexImageFolder(PosixFileSystem(), dir_ / "root", {}, list),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("loop is a link to a folder")));
}

TEST_F(ImageFolderTest, TakesTheClassesOfTheTrainingSplit) {
  Write("cats/1.jpg", "c");
  options_.classes = {"birds", "cats"};
  EXPECT_EQ(Samples()[0].label, 1);
  options_.classes = {"birds"};
  ExpectRefused("cats is no class of the training split");
}

TEST_F(ImageFolderTest, RefusesWhatIsNoImageFolder) {
  ExpectRefused("has no folders");
  Write("1.jpg", "x");
  ExpectRefused("has no folders");
  Write("cats/1.txt", "x");
  ExpectRefused("no picture in them");
  EXPECT_THAT(IndexImageFolder(PosixFileSystem(), dir_ / "none", options_, list_),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(ImageFolderTest, RefusesTwoPicturesWithOneKey) {
  Write("cats/1-a.jpg", "x");
  Write("cats/1.jpg", "x");
  Write("cats/1.png", "x");
  ExpectRefused("cats/1.png is the second picture with key cats/1");
}

TEST_F(ImageFolderTest, ReadsNoPictureAndGivesTheErrorOfEachCall) {
  for (int i = 0; i < 9; ++i) Write(absl::StrCat("c", i % 3, "/", i, "/x.jpg"), "x");
  int n = 1;
  while (true) {
    WatchedReads watched(PosixFileSystem());
    watched.FailAt(n++);
    const auto index = IndexImageFolder(watched, dir_.path(), {}, list_);
    EXPECT_EQ(watched.reads(), 0);
    if (index.ok()) break;
    ASSERT_THAT(index, StatusIs(absl::StatusCode::kUnavailable));
  }
  EXPECT_GT(n, 12);
}

}  // namespace
}  // namespace muster::worker
