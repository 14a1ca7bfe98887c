#include "common/protocol/value_name.h"

#include <gtest/gtest.h>

#include <string>

namespace muster {
namespace {

TEST(ValueNameTest, NamesAsPeopleGiveThemAreTaken) {
  for (const char* name : {"loss", "Loss", "train/loss", "val.acc", "grad-norm", "lr (group 1)",
                           "9a", "\xC3\xA4hnlichkeit"}) {
    EXPECT_TRUE(IsValueName(name)) << name;
  }
  EXPECT_TRUE(IsValueName(std::string(kMaxValueNameBytes, 'a')));
}

TEST(ValueNameTest, WhatCannotBeShownInOneLineIsRefused) {
  for (const char* name : {"", "a\nb", "a\tb", "\x1b[31m", "a\x7f", "\xff", "a\xC3"}) {
    EXPECT_FALSE(IsValueName(name)) << name;
  }
  EXPECT_FALSE(IsValueName(std::string(1, '\0')));
  EXPECT_FALSE(IsValueName(std::string(kMaxValueNameBytes + 1, 'a')));
}

}  // namespace
}  // namespace muster
