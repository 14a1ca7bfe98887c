#include "controller/this_boot.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <string>

namespace muster::controller {
namespace {

TEST(ThisBootTest, ItIsTheNumberOfTheKernelsIdAndNotThatOfAnEmptyFile) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  ASSERT_TRUE(std::getline(file, id));
  ASSERT_EQ(id.size(), 36u) << id;
  EXPECT_EQ(ThisBoot(), BootNumber(id));
  EXPECT_NE(ThisBoot(), 0u);
}

TEST(ThisBootTest, OtherBootsHaveOtherNumbersThatADatabaseCanKeep) {
  const uint64_t one = BootNumber("8d3a5ff2-7c0c-4f4e-9a51-0d3a1c1f2b77");
  const uint64_t other = BootNumber("8d3a5ff2-7c0c-4f4e-9a51-0d3a1c1f2b78");
  EXPECT_NE(one, other);
  for (const uint64_t boot : {one, other}) {
    EXPECT_NE(boot, 0u);
    EXPECT_LE(boot, static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  }
  EXPECT_EQ(BootNumber(""), 0u) << "no boot is known, rather than one that all share";
}

}  // namespace
}  // namespace muster::controller
