#include "worker/agent/checkpoint/mount_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

constexpr char kMounts[] =
    "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
    "30 22 0:40 / /nfs rw shared:5 - nfs4 server:/ rw\n"
    "31 30 0:41 / /nfs/team\\040one rw - nfs4 other:/ rw\n"
    "cut off\n";

TEST(MountPointTest, IsTheInnermostOneInWhichThePathLies) {
  EXPECT_EQ(MountOf("/nfs/a/b", kMounts), "30 /nfs");
  EXPECT_EQ(MountOf("/nfs", kMounts), "30 /nfs");
  EXPECT_EQ(MountOf("/nfs/team one/ckpt", kMounts), "31 /nfs/team one");
  EXPECT_EQ(MountOf("/nfs2/ckpt", kMounts), "22 /");
  EXPECT_EQ(MountOf("/var/ckpt", kMounts), "22 /");
}

TEST(MountPointTest, OfTwoAtOnePlaceItIsTheOneThatCoversTheOther) {
  const std::string over = "40 30 0:50 / /nfs rw - nfs4 again:/ rw\n";
  EXPECT_EQ(MountOf("/nfs/a", absl::StrCat(over, kMounts)), "40 /nfs");
  EXPECT_EQ(MountOf("/nfs/a", absl::StrCat(kMounts, over)), "40 /nfs");
}

TEST(MountPointTest, IsNotKnownWhereNothingIs) {
  EXPECT_EQ(MountOf("/nfs", ""), "");
  EXPECT_EQ(MountOf("relative", kMounts), "");
}

TEST(MountPointTest, TheRootOfThisProcessIsAMount) {
  EXPECT_THAT(MountOf("/", ReadMountInfo()), ::testing::MatchesRegex("[0-9]+ /"));
}

}  // namespace
}  // namespace muster::worker
