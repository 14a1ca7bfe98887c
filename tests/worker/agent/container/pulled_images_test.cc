#include "worker/agent/container/pulled_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.h"

namespace muster::worker {
namespace {

using ::muster::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PulledImagesTest : public ::testing::Test {
 protected:
  TempDir dir_;
  const std::string file_ = dir_ / "pulled";
};

TEST_F(PulledImagesTest, TheLongestUnusedGoFirst) {
  PulledImages images(PosixFileSystem(), file_, 3);
  for (const char* image : {"a/a:1", "a/b:1", "a/c:1"}) EXPECT_THAT(images.Add(image), IsEmpty());
  images.Use("a/a:1");
  images.Use("somebody/elses:1");
  EXPECT_THAT(images.Add("a/d:1"), ElementsAre("a/b:1"));
  EXPECT_THAT(images.Add("a/d:1"), IsEmpty()) << "pulled again";
  EXPECT_EQ(images.size(), 3u);
}

TEST_F(PulledImagesTest, ALaterAgentGoesOnWithTheList) {
  {
    PulledImages images(PosixFileSystem(), file_, 3);
    for (const char* image : {"a/a:1", "a/b:1", "a/c:1"}) images.Add(image);
  }
  PulledImages images(PosixFileSystem(), file_, 3);
  EXPECT_THAT(images.Add("a/d:1"), ElementsAre("a/a:1"));
  images.Keep("a/a:1");
  EXPECT_THAT(images.Add("a/e:1"), ElementsAre("a/a:1", "a/b:1"));
}

TEST_F(PulledImagesTest, WhatIsNoImageIsNotTakenFromTheFile) {
  std::ofstream(file_) << "a/a:1\n../../etc\n--all\n";
  PulledImages images(PosixFileSystem(), file_, 3);
  EXPECT_EQ(images.size(), 1u);
}

}  // namespace
}  // namespace muster::worker
