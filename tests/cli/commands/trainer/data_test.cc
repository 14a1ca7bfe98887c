// `muster data`, with a program in muster-data's place that tells what it was given.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/cli/cli_run.h"
#include "tests/support/status_matchers.h"

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DataVerbTest : public ::testing::Test {
 protected:
  void SetUp() override { run_.env()["MUSTER_BIN_DIR"] = run_.dir().path(); }

  // The program writes to this process's own streams, so it leaves what it says in a file.
  std::string Told(const std::vector<std::string>& args, const std::string& input = "") {
    result_ = run_(args, input);
    std::ifstream in(run_.dir() / "told");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Program(const std::string& script) {
    const std::string path = run_.dir() / "muster-data";
    ASSERT_OK(WriteFileAtomically(PosixFileSystem(), path,
                                  "#!/bin/sh\nexec >" + (run_.dir() / "told") + "\n" + script,
                                  0755));
  }

  testing::CliRun run_;
  testing::CliResult result_;
};

TEST_F(DataVerbTest, PassesAllArgumentsOnAndTheExitCodeBack) {
  Program("echo \"$*\"; exit 1\n");
  EXPECT_EQ(Told({"data", "verify", "/d", "--threads", "3", "--headers"}),
            "verify /d --threads 3 --headers\n");
  EXPECT_EQ(result_.code, 1);
  EXPECT_EQ(Told({"data", "show", "/d", "a/1", "--split", "test"}), "show /d a/1 --split test\n");
  EXPECT_EQ(Told({"data", "pack", "--help"}), "pack --help\n");
  EXPECT_EQ(Told({"data", "show", "--help"}), "show --help\n");
  EXPECT_EQ(Told({"-o", "json", "data", "stats", "/d"}), "stats /d --json\n");
}

TEST_F(DataVerbTest, ShowOfAJobPipesTheResolvedSpec) {
  Program("echo \"$*\"; cat\n");
  const std::string spec = R"(
name: tiny
train: {model: {resnet18: {}}, data: {images: {path: /d}}, batch_size: 2, steps: 1}
)";
  EXPECT_THAT(Told({"data", "show", "-f", "-", "--set", "train.seed=6", "--step", "12", "--sample",
                    "7", "--out", "p.png"},
                   spec),
              AllOf(HasSubstr("show --step 12 --sample 7 --out p.png --job -\n"),
                    HasSubstr(R"("seed":6)")));
  EXPECT_EQ(result_.code, 0) << result_.err;
  EXPECT_EQ(run_({"data", "show", "-f", "-", "--step", "1"}, "name: tiny\n").code, 2);
}

TEST_F(DataVerbTest, SaysWhereTheProgramIsMissing) {
  const testing::CliResult missing = run_({"data", "verify", "/d"});
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.err, HasSubstr("this machine has no muster-data beside `muster`"));
}

TEST_F(DataVerbTest, HelpListsTheCommands) {
  EXPECT_THAT(run_({"data", "--help"}).out, AllOf(HasSubstr("verify "), HasSubstr("bench ")));
}

}  // namespace
}  // namespace muster::cli
