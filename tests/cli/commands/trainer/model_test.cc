// `muster model`, with a program in the trainer's place that tells what it was given.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/cli/cli_run.h"
#include "tests/support/status_matchers.h"

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ModelVerbTest : public ::testing::Test {
 protected:
  void SetUp() override { run_.env()["MUSTER_BIN_DIR"] = run_.dir().path(); }

  void Trainer(const std::string& script) {
    const std::string path = run_.dir() / "muster-trainer";
    ASSERT_OK(WriteFileAtomically(PosixFileSystem(), path, "#!/bin/sh\n" + script, 0755));
  }

  testing::CliRun run_;
};

TEST_F(ModelVerbTest, PassesOnWhatTheTrainerPrintsForPeople) {
  Trainer("echo \"was asked: $*\"\n");
  EXPECT_EQ(run_({"model", "ls"}).out, "was asked: model ls\n");
  const testing::CliResult shown = run_({"model", "show", "gpt2-small"});
  EXPECT_EQ(shown.out, "was asked: model show gpt2-small\n");
  EXPECT_EQ(shown.code, 0);
}

TEST_F(ModelVerbTest, ReadsTheTrainersJsonForMachines) {
  Trainer("echo '[{\"name\": \"a\"}, {\"name\": \"b\"}]'\n");
  EXPECT_EQ(run_({"model", "ls", "-o", "name"}).out, "a\nb\n");
  Trainer("case \"$*\" in *'-o json') echo '{\"name\": \"a\", \"parameters\": 7}' ;; esac\n");
  EXPECT_THAT(run_({"model", "show", "a", "-o", "json"}).out, HasSubstr("\"parameters\": 7"));
}

TEST_F(ModelVerbTest, SendsAResolvedSpecThatItHasChecked) {
  Trainer("echo \"$*\"; cat\n");
  const std::string spec = R"(
name: tiny
train: {model: {gpt2: {layers: 1}}, data: {text: {path: /d}}, batch_size: 2, steps: 1}
)";
  const testing::CliResult shown = run_(
      {"model", "show", "-f", "-", "--set", "train.model.gpt2.heads=6", "--allow-commands"}, spec);
  EXPECT_THAT(shown.out, AllOf(HasSubstr("model show --spec - --allow-commands\n"),
                               HasSubstr(R"("layers":1,"heads":6,"width":768)")));
  const testing::CliResult bad = run_({"model", "show", "-f", "-"}, "name: tiny\n");
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("train: is required"));
}

TEST_F(ModelVerbTest, TellsTheTrainersRefusalInItsWords) {
  Trainer("echo 'muster-trainer: no model is called that' >&2; exit 2\n");
  const testing::CliResult refused = run_({"model", "show", "that"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("no model is called that"));
  Trainer("kill -9 $$\n");
  EXPECT_THAT(run_({"model", "ls"}).err, HasSubstr("ended by signal 9"));
}

TEST_F(ModelVerbTest, ChecksARecipeItsRatesOrItsBatch) {
  Trainer("echo \"$*\"; cat\n");
  const std::string spec = R"(
name: tiny
train: {model: {mlp: }, data: {synthetic: }, batch_size: 2, steps: 1}
)";
  const testing::CliResult checked =
      run_({"check", "-f", "-", "--set", "train.batch_size=8"}, spec);
  EXPECT_EQ(checked.code, 0);
  EXPECT_THAT(checked.out, AllOf(HasSubstr("check --spec -\n"), HasSubstr(R"("batch_size":8)")));
  EXPECT_THAT(run_({"check", "-f", "-", "--rates"}, spec).out, HasSubstr("lr-range --spec -\n"));
  EXPECT_THAT(run_({"check", "-f", "-", "--batch-within", "2GiB"}, spec).out,
              HasSubstr("find-batch --limit-bytes 2147483648 --spec -\n"));
  EXPECT_EQ(run_({"check"}).code, 2);
}

TEST_F(ModelVerbTest, SaysWhatIsMissing) {
  const testing::CliResult nowhere = run_({"model", "ls"});
  EXPECT_EQ(nowhere.code, 3);
  EXPECT_THAT(nowhere.err, HasSubstr("muster-trainer is not there"));
  EXPECT_THAT(run_({"model", "show"}).err, HasSubstr("either a name or a job file"));
}

}  // namespace
}  // namespace muster::cli
