#include "cli/submission/command_job.h"

#include "nlohmann/json.hpp"
#include "tests/support/status_matchers.h"

namespace muster::cli {
namespace {

using ::muster::testing::StatusIs;

TEST(CommandJob, HoldsTheWordsAsTheyAre) {
  const std::vector<std::string> program = {
      "/usr/bin/Python3.11", "-c", "print(\"a\\n\")\n", "", "--", "$HOME", "\x01 \xc3\xa4"};
  ASSERT_OK_AND_ASSIGN(const std::string text, CommandJobText(program));
  const auto job = nlohmann::json::parse(text);
  EXPECT_EQ(job["command"]["argv"].get<std::vector<std::string>>(), program);
  EXPECT_EQ(job["name"], "python3-11");
}

TEST(CommandJob, WordsThatAreNoTextAreRefused) {
  EXPECT_THAT(CommandJobText({"echo", "\xff"}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(CommandJob, ANameIsMadeOfAnyProgram) {
  EXPECT_EQ(JobNameOf("train.py"), "train-py");
  EXPECT_EQ(JobNameOf("./_Run_.sh"), "run--sh");
  EXPECT_EQ(JobNameOf("/"), "command");
  EXPECT_EQ(JobNameOf("..."), "command");
  EXPECT_EQ(JobNameOf(std::string(80, 'x')), std::string(63, 'x'));
}

}  // namespace
}  // namespace muster::cli
