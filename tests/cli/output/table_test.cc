#include "cli/output/table.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_split.h"
#include "cli/output/text.h"

namespace muster::cli {
namespace {

TEST(Table, AlignsColumnsAndLeavesNoTrailingBlanks) {
  Table table({{"ID", true}, {"NAME"}, {"REASON", false, true}});
  table.Add({"7", "digits", ""});
  table.Add({"12", "a", "waits for 4 slots"});
  EXPECT_EQ(table.Render(true),
            "ID  NAME    REASON\n"
            " 7  digits  -\n"
            "12  a       waits for 4 slots\n");
  EXPECT_EQ(table.Render(false),
            " 7  digits  -\n"
            "12  a       waits for 4 slots\n");
}

TEST(Table, FitsItsWidthByCuttingElasticColumnsFromTheLast) {
  Table table({{"ID"}, {"NAME", false, true}, {"STATE"}, {"REASON", false, true}});
  table.Add({"1", std::string(63, 'n'), "RUNNING", std::string(200, 'r')});
  table.Add({"2", "b", "PENDING", "short"});
  for (const absl::string_view line : absl::StrSplit(table.Render(true), '\n')) {
    EXPECT_LE(DisplayWidth(line), kTableWidth) << line;
  }
  Table narrow({{"NAME", false, true}, {"REASON", false, true}});
  narrow.Add({"digits-resnet", "waits for room"});
  EXPECT_EQ(narrow.Render(true, 21),
            "NAME           REASON\n"
            "digits-resnet  waits~\n");
}

TEST(Table, CutsTheLineWhenNothingMayGiveWay) {
  Table table({{"A"}, {"B"}});
  table.Add({"aaaa", "bbbb"});
  EXPECT_EQ(table.Render(false, 8), "aaaa  b~\n");
}

TEST(Table, AWrappedColumnGoesOnBelow) {
  Table table({{"NAME"}, {"MESSAGE", false, false, true}});
  table.Add({"a", "rank 1 on worker-2 failed: cannot execute it"});
  table.Add({"b", "short"});
  EXPECT_EQ(table.Render(true, 30),
            "NAME  MESSAGE\n"
            "a     rank 1 on worker-2\n"
            "      failed: cannot execute\n"
            "      it\n"
            "b     short\n");
}

TEST(Table, ACellHasOneLine) {
  Table table({{"A"}});
  table.Add({"x\ny\x1b[31m"});
  EXPECT_EQ(table.Render(false), "x y [31m\n");
}

}  // namespace
}  // namespace muster::cli
