#include "common/os/unique_name.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace muster {
namespace {

TEST(UniqueName, NoNameComesTwice) {
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) names.insert(UniqueName());
  EXPECT_EQ(names.size(), 1000u);
  for (const std::string& name : names) {
    EXPECT_EQ(name.substr(0, 9), MachinePrefix());
    EXPECT_EQ(name.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz-"), std::string::npos);
  }
}

}  // namespace
}  // namespace muster
