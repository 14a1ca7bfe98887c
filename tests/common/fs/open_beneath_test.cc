#include "common/fs/open_beneath.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;

namespace files = std::filesystem;

class OpenBeneathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    files::create_directories(dir_ / "root/a/b");
    files::create_directories(dir_ / "outside");
    std::ofstream(dir_ / "outside/secret") << "secret";
    std::ofstream(dir_ / "root/a/file") << "inside";
    files::create_symlink("a/file", dir_ / "root/inside");
    files::create_symlink(dir_ / "outside", dir_ / "root/out");
    files::create_symlink("../outside/secret", dir_ / "root/secret");
    auto root = OpenFolder(dir_ / "root");
    ASSERT_OK(root);
    root_ = *std::move(root);
  }
  static std::string Read(const UniqueFd& fd) {
    char text[16] = {};
    return ::read(fd.get(), text, sizeof text - 1) < 0 ? "" : text;
  }

  TempDir dir_;
  UniqueFd root_;
};

TEST_F(OpenBeneathTest, WhatLiesBeneathIsOpened) {
  for (const Links links : {Links::kInside, Links::kNone}) {
    ASSERT_OK_AND_ASSIGN(const UniqueFd fd, OpenBeneath(root_.get(), "a/file", O_RDONLY, links));
    EXPECT_EQ(Read(fd), "inside");
  }
  ASSERT_OK_AND_ASSIGN(const UniqueFd walked,
                       internal::WalkBeneath(root_.get(), "a//file", O_RDONLY));
  EXPECT_EQ(Read(walked), "inside");
}

TEST_F(OpenBeneathTest, ALinkInsideIsFollowedWhereThatIsAsked) {
  EXPECT_OK(OpenBeneath(root_.get(), "inside", O_RDONLY, Links::kInside));
  EXPECT_THAT(OpenBeneath(root_.get(), "inside", O_RDONLY, Links::kNone),
              StatusIs(StatusCode::kPermissionDenied));
}

TEST_F(OpenBeneathTest, NothingLeadsOut) {
  const std::string absolute = dir_ / "outside/secret";
  for (const std::string& path :
       {std::string("../outside/secret"), std::string("a/../../outside/secret"), absolute,
        std::string("out/secret"), std::string("secret"), std::string("out")}) {
    for (const Links links : {Links::kInside, Links::kNone}) {
      EXPECT_THAT(OpenBeneath(root_.get(), path, O_RDONLY, links),
                  StatusIs(StatusCode::kPermissionDenied))
          << path;
    }
    EXPECT_THAT(internal::WalkBeneath(root_.get(), path, O_RDONLY),
                StatusIs(StatusCode::kPermissionDenied))
        << path;
  }
}

TEST_F(OpenBeneathTest, WhatIsNotThereIsNotFound) {
  EXPECT_THAT(OpenBeneath(root_.get(), "none", O_RDONLY, Links::kInside),
              StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(internal::WalkBeneath(root_.get(), "a/none", O_RDONLY),
              StatusIs(StatusCode::kNotFound));
}

TEST_F(OpenBeneathTest, AMountIsNotEntered) {
  if (::mount((dir_ / "outside").c_str(), (dir_ / "root/a/b").c_str(), nullptr, MS_BIND, nullptr) !=
      0) {
    GTEST_SKIP() << "nothing can be mounted here";
  }
  const auto opened = OpenBeneath(root_.get(), "a/b/secret", O_RDONLY, Links::kInside);
  ASSERT_EQ(::umount2((dir_ / "root/a/b").c_str(), MNT_DETACH), 0);
  EXPECT_THAT(opened, StatusIs(StatusCode::kPermissionDenied));
}

TEST_F(OpenBeneathTest, AFolderIsHeldWithoutBeingRead) {
  constexpr int kFlags = O_PATH | O_DIRECTORY;
  EXPECT_OK(OpenBeneath(root_.get(), "a/b", kFlags, Links::kNone));
  EXPECT_OK(internal::WalkBeneath(root_.get(), "a/b", kFlags));
  EXPECT_THAT(OpenBeneath(root_.get(), "out", kFlags, Links::kNone),
              StatusIs(StatusCode::kPermissionDenied));
}

TEST_F(OpenBeneathTest, AFifoHangsNobody) {
  ASSERT_EQ(::mkfifo((dir_ / "root/fifo").c_str(), 0600), 0);
  EXPECT_OK(OpenBeneath(root_.get(), "fifo", O_RDONLY, Links::kInside));
}

}  // namespace
}  // namespace muster
