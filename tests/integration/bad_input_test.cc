// Bad input of every kind: one clear message, the right exit code, and nothing changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kGood[] =
    "name: good\n"
    "train:\n"
    "  model: {mlp: {hidden: [8]}}\n"
    "  data: {synthetic: {samples: 64, shape: [4]}}\n"
    "  batch_size: 8\n"
    "  steps: 10\n"
    "  optimizer: {lr: 0.1}\n";

// A change to kGood, or arguments of their own when `args` is not empty.
struct BadInput {
  const char* title;
  std::vector<std::pair<std::string, std::string>> replace;
  std::vector<std::string> args;
  int exit_code;
  std::vector<std::string> words;  // all of them stand in the message
};

class BadInputTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    cluster_ = new Cluster;
    cluster_->Up(1);
  }
  static void TearDownTestSuite() {
    delete cluster_;
    cluster_ = nullptr;
  }
  static Cluster* cluster_;
};
Cluster* BadInputTest::cluster_ = nullptr;

TEST_F(BadInputTest, EachGetsOneClearMessageAndChangesNothing) {
  const std::string missing = cluster_->Path("missing");
  const std::string unreadable = cluster_->Path("a-folder");
  std::filesystem::create_directories(unreadable);
  const std::vector<BadInput> cases = {
      {"a misspelt key", {{"{lr:", "{lrr:"}}, {}, 2, {"train.optimizer.lrr", "lr"}},
      {"two faults at once",
       {{"{lr:", "{lrr:"}, {"batch_size: 8", "batch_size: -3"}},
       {},
       2,
       {"train.optimizer.lrr", "train.batch_size"}},
      {"a wrong type", {{"steps: 10", "steps: many"}}, {}, 2, {"train.steps"}},
      {"a number in quotes", {{"steps: 10", "steps: \"10\""}}, {}, 2, {"train.steps"}},
      {"out of range", {{"lr: 0.1", "lr: -1"}}, {}, 2, {"train.optimizer.lr"}},
      {"a duplicate key", {{"steps: 10", "steps: 10\n  steps: 11"}}, {}, 2, {"steps"}},
      {"no name", {{"name: good\n", ""}}, {}, 2, {"name"}},
      {"a bad name", {{"name: good", "name: Not_Good"}}, {}, 2, {"name"}},
      {"neither steps nor epochs", {{"  steps: 10\n", ""}}, {}, 2, {"steps", "epochs"}},
      {"no YAML", {{"name: good", "name: [good"}}, {}, 2, {"line"}},
      {"more ranks than there will ever be",
       {{"name: good", "name: good\nranks: 8"}},
       {},
       7,
       {"8 CPU slots"}},
      {"a pool without workers",
       {{"name: good", "name: good\nplacement: {pool: nowhere}"}},
       {},
       7,
       {"nowhere"}},
      {"a GPU where there is none",
       {{"name: good", "name: good\nplacement: {pool: default}\nper_rank: {gpus: 1}"}},
       {},
       7,
       {"GPU"}},
      {"no such file", {}, {"submit", "-f", missing}, 2, {missing}},
      {"a folder for a file", {}, {"submit", "-f", unreadable}, 2, {unreadable}},
      {"a bad --set", {}, {"submit", "-f", "GOOD", "--set", "train.optimizer.lrr=1"}, 2, {"lrr"}},
      {"a --set without a value",
       {},
       {"submit", "-f", "GOOD", "--set", "train.steps"},
       2,
       {"train.steps"}},
      {"an unknown job", {}, {"show", "424242"}, 3, {"424242"}},
      {"an unknown job's logs", {}, {"logs", "424242"}, 3, {"424242"}},
      {"an unknown job's cancel", {}, {"cancel", "424242"}, 3, {"424242"}},
      {"an unknown job's metrics", {}, {"metrics", "424242"}, 3, {"424242"}},
      {"an unknown job to wait for", {}, {"wait", "424242"}, 3, {"424242"}},
      {"an unknown verb", {}, {"sumbit"}, 2, {"sumbit", "submit"}},
      {"an unknown flag", {}, {"ls", "--frobnicate"}, 2, {"--frobnicate"}},
      {"an unknown format", {}, {"ls", "-o", "toml"}, 2, {"toml"}},
      {"nobody there", {}, {"--addr", "127.0.0.1:1", "ls"}, 5, {"127.0.0.1:1"}},
  };
  const std::string good = cluster_->Path("good.yaml");
  std::ofstream(good) << kGood;
  for (const BadInput& bad : cases) {
    SCOPED_TRACE(bad.title);
    std::vector<std::string> args = bad.args;
    std::replace(args.begin(), args.end(), std::string("GOOD"), good);
    if (args.empty()) {
      const std::string path = cluster_->Path("bad.yaml");
      std::string yaml = kGood;
      for (const auto& [from, to] : bad.replace) {
        ASSERT_THAT(yaml, HasSubstr(from));
        yaml = absl::StrReplaceAll(yaml, {{from, to}});
      }
      std::ofstream(path) << yaml;
      args = {"submit", "-f", path};
    }
    const ProcessResult result = cluster_->Cli(args);
    EXPECT_EQ(result.exit_code, bad.exit_code) << absl::StrJoin(args, " ") << "\n"
                                               << result.out << result.err;
    for (const std::string& word : bad.words) EXPECT_THAT(result.err, HasSubstr(word));
    EXPECT_EQ(result.out, "") << "what is wrong is told on stderr alone";
  }
  const Json answer = cluster_->CliJson({"ls"});
  EXPECT_TRUE((answer.is_array() ? answer : Member(answer, "jobs")).empty()) << answer.dump(1);
}

TEST_F(BadInputTest, MissingDataFailsTheJobWithItsName) {
  const uint64_t job = cluster_->Submit(absl::StrReplaceAll(
      kGood, {{"{synthetic: {samples: 64, shape: [4]}}", "{digits: {path: /nowhere/digits}}"}}));
  ASSERT_GT(job, 0u);
  EXPECT_EQ(cluster_->WaitForEnd(job), "FAILED");
  const Json show = cluster_->Show(job);
  EXPECT_EQ(Text(Member(show, "summary"), "failure_class"), "DATA_ERROR") << show.dump(1);
  EXPECT_THAT(Text(Member(show, "summary"), "message"), HasSubstr("/nowhere/digits"));
  EXPECT_EQ(Member(show, "attempts").size(), 1u) << "trying again cannot help";
  EXPECT_EQ(cluster_->Cli({"wait", absl::StrCat(job)}).exit_code, 10);
}

TEST_F(BadInputTest, ErrorsAreJsonInJsonMode) {
  const ProcessResult result = cluster_->Cli({"show", "424242", "-o", "json"});
  EXPECT_EQ(result.exit_code, 3);
  Json error = Json::parse(result.err, nullptr, false);
  if (error.contains("error")) error = error["error"];
  EXPECT_EQ(Text(error, "code"), "NOT_FOUND") << result.err;
  EXPECT_THAT(Text(error, "message"), HasSubstr("424242"));
  EXPECT_TRUE(error.contains("hint") && error.contains("retryable")) << result.err;
}

}  // namespace
}  // namespace muster::testing
