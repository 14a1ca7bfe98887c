#include "common/base/utf8.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(CutUtf8, NeverCutsACharacter) {
  const std::string text = "aé€𝄞";  // characters of one to four bytes
  const size_t ends[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
  for (size_t most = 0; most < std::size(ends); ++most) {
    EXPECT_EQ(CutUtf8(text, most), text.substr(0, ends[most])) << most;
  }
}

TEST(CutUtf8, BytesThatAreNoUtf8BecomeQuestionMarks) {
  EXPECT_EQ(CutUtf8("a\xff\xfe z", 100), "a?? z");
  EXPECT_EQ(CutUtf8(std::string(10, '\x80'), 6).size(), 2u) << "steps back by a character at most";
}

TEST(RepairUtf8, LeavesWhatIsGoodAndReplacesTheRest) {
  EXPECT_EQ(RepairUtf8("aé€𝄞\n"), "aé€𝄞\n");
  EXPECT_EQ(RepairUtf8("a\xc3"), "a?");               // cut short
  EXPECT_EQ(RepairUtf8("\xc0\xaf"), "??");            // not the shortest form
  EXPECT_EQ(RepairUtf8("\xed\xa0\x80"), "???");       // a surrogate
  EXPECT_EQ(RepairUtf8("\xf4\x90\x80\x80"), "????");  // beyond U+10FFFF
  EXPECT_TRUE(IsUtf8("é"));
  EXPECT_FALSE(IsUtf8("\xc3"));
}

}  // namespace
}  // namespace muster
