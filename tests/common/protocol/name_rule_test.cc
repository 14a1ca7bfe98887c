#include "common/protocol/name_rule.h"

#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(NameRule, LowerCaseDigitsAndInnerDashesMakeAName) {
  for (const char* name : {"a", "7", "node-7", "0-0", "a--b"}) EXPECT_TRUE(IsName(name)) << name;
  EXPECT_TRUE(IsName(std::string(63, 'a')));
}

TEST(NameRule, NothingElseDoes) {
  for (const char* text :
       {"", "-", "-a", "a-", "A", "a.b", "a_b", "a b", "a/b", "\xc3\xa4", "a\n"}) {
    EXPECT_FALSE(IsName(text)) << text;
  }
  EXPECT_FALSE(IsName(std::string(64, 'a')));
  EXPECT_FALSE(IsName(absl::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace muster
