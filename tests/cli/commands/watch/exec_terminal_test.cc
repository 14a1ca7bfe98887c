#include "cli/commands/watch/exec_terminal.h"

#include <gtest/gtest.h>

#include <string>

namespace muster::cli {
namespace {

// What goes to the program of keys that come in these pieces; "LEFT" at its end: the way out was in
// them.
std::string Passed(std::initializer_list<const char*> pieces) {
  LeaveKeys keys;
  std::string passed;
  bool leave = false;
  for (const char* piece : pieces) passed += keys.Pass(piece, leave);
  return leave ? passed + "LEFT" : passed;
}

TEST(LeaveKeys, ATildeAndADotAtTheBeginOfALineLeave) {
  EXPECT_EQ(Passed({"~."}), "LEFT");
  EXPECT_EQ(Passed({"ls\r~.rest"}), "ls\rLEFT");
  EXPECT_EQ(Passed({"ls\n", "~", "."}), "ls\nLEFT");
}

TEST(LeaveKeys, ElsewhereTheyAreTheProgramsOwn) {
  EXPECT_EQ(Passed({"cd ~.\r"}), "cd ~.\r");
  EXPECT_EQ(Passed({"~/bin\r"}), "~/bin\r");
  EXPECT_EQ(Passed({"~~."}), "~.") << "two are one";
  EXPECT_EQ(Passed({"~", "x~."}), "~x~.");
  EXPECT_EQ(Passed({"x~."}), "x~.");
}

}  // namespace
}  // namespace muster::cli
