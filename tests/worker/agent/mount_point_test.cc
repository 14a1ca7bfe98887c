#include "worker/agent/mount_point.h"

#include <gtest/gtest.h>

namespace muster::worker {
namespace {

constexpr char kMounts[] =
    "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
    "30 22 0:40 / /nfs rw shared:5 - nfs4 server:/ rw\n"
    "31 30 0:41 / /nfs/team\\040one rw - nfs4 other:/ rw\n"
    "cut off\n";

TEST(MountPointTest, IsTheInnermostOneInWhichThePathLies) {
  EXPECT_EQ(MountPointOf("/nfs/a/b", kMounts), "/nfs");
  EXPECT_EQ(MountPointOf("/nfs", kMounts), "/nfs");
  EXPECT_EQ(MountPointOf("/nfs/team one/ckpt", kMounts), "/nfs/team one");
  EXPECT_EQ(MountPointOf("/nfs2/ckpt", kMounts), "/");
  EXPECT_EQ(MountPointOf("/var/ckpt", kMounts), "/");
}

TEST(MountPointTest, IsNotKnownWhereNothingIs) {
  EXPECT_EQ(MountPointOf("/nfs", ""), "");
  EXPECT_EQ(MountPointOf("relative", kMounts), "");
}

TEST(MountPointTest, TheRootOfThisProcessIsAMount) {
  EXPECT_EQ(MountPointOf("/", ReadMountInfo()), "/");
}

}  // namespace
}  // namespace muster::worker
