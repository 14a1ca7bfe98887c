#include "common/os/boot_id.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(BootId, IsOneWordThatStays) {
  const std::string id = BootId();
  EXPECT_EQ(id.size(), 36u) << "a UUID";
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef-"), std::string::npos);
  EXPECT_EQ(BootId(), id);
}

}  // namespace
}  // namespace muster
