#include "common/daemon/daemon_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster {
namespace {

using ::muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Options {
  absl::Duration every = absl::Seconds(3);
  uint64_t most = 1 << 20;
  std::vector<std::string> labels;
  std::string name;
};

class DaemonOptionsTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::string> Parse(std::vector<std::string> arguments) {
    CLI::App app{"A daemon.", "exampled"};
    AddDuration(app, "--every", &options_.every, "How often");
    AddBytes(app, "--most", &options_.most, "How much");
    app.add_option("--label", options_.labels, "Labels");
    app.add_option("--name", options_.name, "Name");
    std::vector<const char*> argv = {"exampled"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    return ParseDaemonOptions(app, static_cast<int>(argv.size()), argv.data());
  }
  absl::StatusOr<std::string> ParseFile(const std::string& text) {
    const std::string path = dir_ / "config.yaml";
    std::ofstream(path) << text;
    return Parse({"--config", path});
  }

  testing::TempDir dir_;
  Options options_;
};

TEST_F(DaemonOptionsTest, FlagsAndTheFileSayTheSame) {
  ASSERT_OK_AND_ASSIGN(const std::string text,
                       ParseFile("every: 1m\nmost: 2MiB\nname: a\nlabel: [x, y]\n"));
  EXPECT_EQ(text, "");
  EXPECT_EQ(options_.every, absl::Minutes(1));
  EXPECT_EQ(options_.most, 2u << 20);
  EXPECT_EQ(options_.name, "a");
  EXPECT_THAT(options_.labels, ElementsAre("x", "y"));
}

TEST_F(DaemonOptionsTest, AMapGivesPairs) {
  ASSERT_OK_AND_ASSIGN(const std::string text, ParseFile("label: {zone: a}\n"));
  EXPECT_EQ(text, "");
  EXPECT_THAT(options_.labels, ElementsAre("zone=a"));
}

TEST_F(DaemonOptionsTest, EachFaultNamesItsKey) {
  const absl::StatusCode bad = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(ParseFile("evry: 1s\n"), StatusIs(bad, HasSubstr("`evry`")));
  EXPECT_THAT(ParseFile("evry: 1s\n"), StatusIs(bad, HasSubstr("exampled --help")));
  EXPECT_THAT(ParseFile("name: a\nname: b\n"), StatusIs(bad, HasSubstr("`name` is there twice")));
  EXPECT_THAT(ParseFile("name: [a, b]\n"), StatusIs(bad, HasSubstr("`name` must be plain text")));
  EXPECT_THAT(ParseFile("label: [[a]]\n"), StatusIs(bad, HasSubstr("`label` must hold")));
  EXPECT_THAT(ParseFile("- a\n"), StatusIs(bad, HasSubstr("must be a map")));
  EXPECT_THAT(ParseFile("a: {"), StatusIs(bad, HasSubstr("config file")));
  EXPECT_THAT(Parse({"--every", "soon"}), StatusIs(bad, HasSubstr("--every")));
  EXPECT_THAT(Parse({"--most", "many"}), StatusIs(bad, HasSubstr("--most")));
  EXPECT_THAT(Parse({"--config", dir_ / "none"}), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(DaemonOptionsTest, HelpAndVersionAreTexts) {
  ASSERT_OK_AND_ASSIGN(const std::string help, Parse({"--help"}));
  EXPECT_THAT(help, HasSubstr("--every DURATION=3s"));
  ASSERT_OK_AND_ASSIGN(const std::string version, Parse({"--version"}));
  EXPECT_THAT(version, HasSubstr("exampled "));
}

}  // namespace
}  // namespace muster
