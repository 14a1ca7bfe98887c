#include "cli/output/bundle_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(BundleArchive, IsMadeOfBlocksAndEndsInTwoEmptyOnes) {
  BundleArchive archive("b", 1'700'000'000);
  archive.Add("a.txt", "hello");
  archive.Add("empty", "");
  const std::string bytes = std::move(archive).Take();
  ASSERT_EQ(bytes.size(), 512u * (1 + 1 + 1 + 2));
  EXPECT_EQ(bytes.substr(0, 8), std::string("b/a.txt\0", 8));
  EXPECT_EQ(bytes.substr(257, 8), std::string("ustar\00000", 8));
  EXPECT_EQ(bytes.substr(512, 5), "hello");
  EXPECT_EQ(bytes.substr(1536), std::string(1024, '\0'));
}

TEST(BundleArchive, SecretsAreNowhereInIt) {
  BundleArchive archive("b", 0);
  archive.HideSecret("t0ken-of-mine");
  archive.HideSecret("");
  archive.HideSecret("a");
  archive.Add("log", "sent t0ken-of-mine, and t0ken-of-mine again");
  const std::string bytes = std::move(archive).Take();
  EXPECT_THAT(bytes, Not(HasSubstr("t0ken")));
  EXPECT_THAT(bytes, HasSubstr("sent [hidden], and [hidden] again"));
}

}  // namespace
}  // namespace muster::cli
