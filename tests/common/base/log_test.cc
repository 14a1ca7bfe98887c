#include "common/base/log.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(LogTest, WritesKeysAndValuesInOrder) {
  EXPECT_EQ(
      FormatLogLine(LogLevel::kInfo, "job_placed", {{"job", 42}, {"fits", true}, {"rate", 1.5}}),
      "level=info event=job_placed job=42 fits=true rate=1.5\n");
}

TEST(LogTest, QuotesAndEscapesWhatWouldBreakTheLine) {
  EXPECT_EQ(
      FormatLogLine(LogLevel::kError, "bad", {{"a", "x y"}, {"b", ""}, {"c", "1\n\"2\"\\\x01"}}),
      "level=error event=bad a=\"x y\" b=\"\" c=\"1\\n\\\"2\\\"\\\\?\"\n");
}

TEST(LogTest, CutsAValueThatIsTooLong) {
  const std::string line = FormatLogLine(LogLevel::kInfo, "e", {{"v", std::string(100'000, 'x')}});
  EXPECT_LT(line.size(), 5000u);
  EXPECT_NE(line.find("xxx...\n"), line.npos);
}

}  // namespace
}  // namespace muster
