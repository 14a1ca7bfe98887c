#include "common/ckpt/checkpoint_folder.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(CheckpointFolderTest, NamesRoundTrip) {
  EXPECT_EQ(FolderName({120, 2, 1, ""}), "step-120.a2.g1");
  EXPECT_EQ(FolderName({120, 2, 1, "9f3c"}), "step-120.a2.g1.9f3c.tmp");
  for (const CheckpointFolder& folder :
       {CheckpointFolder{0, 1, 1, ""}, CheckpointFolder{INT64_MAX, UINT32_MAX, UINT32_MAX, "z0"}}) {
    EXPECT_EQ(ParseFolderName(FolderName(folder)), folder);
  }
}

TEST(CheckpointFolderTest, AnythingElseIsNoCheckpoint) {
  for (const char* name : {"",
                           "step-",
                           "step-1",
                           "step-1.a1",
                           "step-1.a1.g",
                           "step-1.a1.g1.",
                           "step-1.a1.g1.tmp",
                           "step-1.a1.g1..tmp",
                           "step-1.a1.g1.ABC.tmp",
                           "step-1.a1.g1.x.tmp.tmp",
                           "step-01.a1.g1",
                           "step--1.a1.g1",
                           "step-+1.a1.g1",
                           "step-1.a1.g1 ",
                           " step-1.a1.g1",
                           "step-1.a-1.g1",
                           "step-9223372036854775808.a1.g1",
                           "step-1.a4294967296.g1",
                           "step-1.a1.g1/x",
                           "step-1.a1.g1.012345678901234567890123456789012.tmp",
                           "lost+found"}) {
    EXPECT_FALSE(ParseFolderName(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace muster
