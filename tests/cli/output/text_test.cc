#include "cli/output/text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace muster::cli {
namespace {

TEST(Text, CountsCharactersAndNotBytes) {
  EXPECT_EQ(DisplayWidth(""), 0u);
  EXPECT_EQ(DisplayWidth("abc"), 3u);
  EXPECT_EQ(DisplayWidth("\xC3\xA9t\xC3\xA9"), 3u);
}

TEST(Text, CutsAtACharacterAndShowsIt) {
  EXPECT_EQ(CutTo("digits", 6), "digits");
  EXPECT_EQ(CutTo("digits", 4), "dig~");
  EXPECT_EQ(CutTo("\xC3\xA9\xC3\xA9\xC3\xA9", 2), "\xC3\xA9~");
  EXPECT_EQ(CutTo("digits", 0), "");
}

TEST(Text, LinesEndAtABlankWhereThereIsOne) {
  std::string text = "one two threefour";
  EXPECT_EQ(TakeLine(&text, 7), "one two");
  EXPECT_EQ(TakeLine(&text, 5), "three");
  EXPECT_EQ(TakeLine(&text, 9), "four");
  EXPECT_EQ(text, "");
  text = "one two";
  EXPECT_EQ(TakeLine(&text, 5), "one");
  EXPECT_EQ(TakeLine(&text, 5), "two");
  text = " \xC3\xA9\xC3\xA9";
  EXPECT_EQ(TakeLine(&text, 2), " \xC3\xA9");
  EXPECT_EQ(TakeLine(&text, 2), "\xC3\xA9");
}

TEST(Text, NothingFromOutsideMovesTheCursor) { EXPECT_EQ(Plain("a\x1b[2Jb\nc"), "a [2Jb c"); }

TEST(Text, AgesAreWholeSeconds) {
  const absl::Time now = absl::FromUnixMillis(10'000'000);
  EXPECT_EQ(Age(now, 0), "-");
  EXPECT_EQ(Age(now, 10'000'000), "0s");
  EXPECT_EQ(Age(now, 9'997'500), "2s");
  EXPECT_EQ(Age(now, -20'500), "2h47m");
  EXPECT_EQ(Age(now, 11'000'000), "0s") << "a clock that runs behind is no error";
}

TEST(Text, TimesAreUtc) {
  EXPECT_EQ(TimeText(1'700'000'000'000), "2023-11-14 22:13:20");
  EXPECT_EQ(TimeText(0), "-");
}

TEST(Text, NumbersKeepThreeOrFourDigits) {
  EXPECT_EQ(Number(std::nullopt), "-");
  EXPECT_EQ(Number(0.0), "0");
  EXPECT_EQ(Number(0.03125), "0.0312");
  EXPECT_EQ(Number(2.30258), "2.303");
  EXPECT_EQ(Number(12.345), "12.35");
  EXPECT_EQ(Number(812.34), "812.3");
  EXPECT_EQ(Number(12345.6), "12346");
  EXPECT_EQ(Number(1e-7), "1e-07");
  EXPECT_EQ(Number(-3.0), "-3.000");
  EXPECT_EQ(Number(std::nan("")), "nan");
  EXPECT_EQ(Percent(0.975), "97.5%");
  EXPECT_EQ(Percent(std::nullopt), "-");
  EXPECT_EQ(Bytes(1024.0 * 1024), "1.0 MiB");
}

}  // namespace
}  // namespace muster::cli
