// Jobs that begin from what another one saved, on a real Muster: commands, and the trainer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

constexpr absl::Duration kPatience = absl::Minutes(1);

class ResumeFrom : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NO_FATAL_FAILURE(cluster_.Up(1)); }
  void TearDown() override { cluster_.Down(); }

  Json Summary(uint64_t job) { return Member(cluster_.Show(job), "summary"); }
  // The step that the job's attempt (from 0) resumed from.
  double FirstStep(uint64_t job, size_t attempt) {
    const Json attempts = Member(cluster_.Show(job), "attempts");
    return attempt < attempts.size() ? Number(attempts[attempt], "first_step") : -1;
  }
  std::string Folder(uint64_t job) {
    const Json show = cluster_.Show(job);
    for (const Json& checkpoint : Member(show, "checkpoints")) return Text(checkpoint, "path");
    return "";
  }

  Cluster cluster_;
};

class ResumeFromCommands : public ResumeFrom {
 protected:
  void SetUp() override {
    ASSERT_EQ(::access("/usr/bin/socat", X_OK), 0) << "socat is missing: scripts/setup --tests";
    ResumeFrom::SetUp();
  }
  // Counts three further in three steps and offers that; see examples/report.sh.
  ProcessResult TrySubmit(const Words& flags) {
    Words args = {"submit", "--name", "count", "-o", "json", "--set", "restart.backoff=100ms"};
    args.insert(args.end(), flags.begin(), flags.end());
    for (const char* word : {"--", "sh"}) args.push_back(word);
    args.push_back(SourceDir() + "/examples/report.sh");
    return cluster_.Cli(args);
  }
  uint64_t Submit(const Words& flags) {
    const ProcessResult result = TrySubmit(flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const Json answer = Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
    return static_cast<uint64_t>(Number(answer, "job_id"));
  }
};

TEST_F(ResumeFromCommands, ASecondJobCountsOnWhereTheFirstOneStoodOverARestartOfTheController) {
  const uint64_t first = Submit({"--resume-from", "auto"});
  EXPECT_EQ(cluster_.WaitForEnd(first), "SUCCEEDED");
  EXPECT_EQ(Number(Summary(first), "step"), 3) << "from nothing: there was none";
  const uint64_t second = Submit({"--resume-from", absl::StrCat(first), "--hold"});
  const ProcessId controller = cluster_.DaemonProcess("musterd");
  ASSERT_EQ(::kill(controller.pid, SIGKILL), 0);
  ASSERT_TRUE(WaitUntil(kPatience, [&] {
    return cluster_.Cli({"release", absl::StrCat(second)}).exit_code == 0;
  }));
  EXPECT_EQ(cluster_.WaitForEnd(second), "SUCCEEDED");
  const Json show = cluster_.Show(second);
  EXPECT_EQ(Number(Member(show, "summary"), "step"), 6) << show.dump(1);
  EXPECT_EQ(Number(Member(show, "resume_from"), "job_id"), static_cast<double>(first));
  EXPECT_EQ(FirstStep(second, 0), 3);
  EXPECT_THAT(cluster_.Cli({"show", absl::StrCat(second)}).out,
              HasSubstr("began from:   job 1 (count), step 3\n"));
  // The newest of the name, which is the second; its own checkpoint is of step 6.
  const uint64_t third = Submit({"--resume-from", "count@newest"});
  EXPECT_EQ(cluster_.WaitForEnd(third), "SUCCEEDED");
  EXPECT_EQ(Number(Summary(third), "step"), 9);
}

TEST_F(ResumeFromCommands, WhatIsGoneIsSaidAndNobodyBeginsFromNothingInstead) {
  const uint64_t first = Submit({});
  EXPECT_EQ(cluster_.WaitForEnd(first), "SUCCEEDED");
  ProcessResult refused = TrySubmit({"--resume-from", absl::StrCat(first, "@7")});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, HasSubstr("has no checkpoint of step 7; there are those of step 3"));
  EXPECT_EQ(TrySubmit({"--resume-from", "99"}).exit_code, 3);

  const uint64_t held = Submit({"--resume-from", absl::StrCat(first), "--hold"});
  const std::string folder = Folder(first);
  ASSERT_TRUE(std::filesystem::exists(folder)) << folder;
  std::filesystem::remove_all(folder);
  EXPECT_EQ(cluster_.Cli({"release", absl::StrCat(held)}).exit_code, 0);
  EXPECT_EQ(cluster_.WaitForEnd(held), "FAILED");
  const Json summary = Summary(held);
  EXPECT_EQ(Text(summary, "failure_class"), "CORRUPTION") << summary.dump(1);
  EXPECT_EQ(Text(summary, "reason"), "NOT_RETRYABLE");
  EXPECT_THAT(Text(summary, "message"),
              HasSubstr("it was to begin from job 1 (count), step 3, which is DELETED"));
  EXPECT_EQ(Number(summary, "step"), 0);

  refused = TrySubmit({"--resume-from", absl::StrCat(first)});
  EXPECT_EQ(refused.exit_code, 7);
  EXPECT_THAT(refused.err, HasSubstr("has no checkpoint that can be restored"));
  EXPECT_THAT(refused.err, HasSubstr("is DELETED"));
}

class ResumeFromTrainer : public ResumeFrom {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(BinDir() + "/muster-trainer")) {
      GTEST_SKIP() << "this build has no trainer";
    }
    ResumeFrom::SetUp();
  }
  // A small network on made-up data, saved every 20 steps.
  static std::string Job(const std::string& name, int steps, int width = 8) {
    return absl::StrCat("name: ", name, "\ntrain:\n  model: {mlp: {hidden: [", width,
                        "]}}\n  data: {synthetic: {samples: 256, shape: [4]}}\n"
                        "  batch_size: 16\n  steps: ",
                        steps,
                        "\ncheckpoint: {every_steps: 20, every_epochs: 0}\n"
                        "restart: {backoff: 100ms}\n");
  }
};

TEST_F(ResumeFromTrainer, ASecondJobTrainsOnFromTheFirstOnesStep) {
  const uint64_t first = cluster_.Submit(Job("first", 40));
  ASSERT_EQ(cluster_.WaitForEnd(first), "SUCCEEDED");
  const uint64_t second = cluster_.Submit(Job("second", 60), {"--resume-from", "first"});
  EXPECT_EQ(cluster_.WaitForEnd(second), "SUCCEEDED");
  EXPECT_EQ(FirstStep(second, 0), 40);
  EXPECT_EQ(Number(Summary(second), "step"), 60);
  const Json show = cluster_.Show(second);
  for (const Json& checkpoint : Member(show, "checkpoints")) {
    EXPECT_GT(Number(checkpoint, "step"), 40) << "it saves what it trained itself";
  }
  const std::string logs = cluster_.Cli({"logs", absl::StrCat(second)}).out;
  EXPECT_THAT(logs, HasSubstr("other_jobs_recipe_differs"));
  EXPECT_THAT(logs, HasSubstr("train.steps"));

  // Another network: an error that names both, and no second try.
  const uint64_t third =
      cluster_.Submit(Job("third", 60, /*width=*/16), {"--resume-from", "first"});
  EXPECT_EQ(cluster_.WaitForEnd(third), "FAILED");
  const Json summary = Summary(third);
  EXPECT_EQ(Number(summary, "attempt"), 1);
  EXPECT_THAT(Text(summary, "message"),
              HasSubstr(absl::StrCat("job ", third,
                                     " (third) cannot go on from the checkpoint of "
                                     "job ",
                                     first, " (first) of step 40")));
}

// As from another cluster: the folder was copied, and no job here has it.
TEST_F(ResumeFromTrainer, AnImportedCheckpointIsOneToGoOnFrom) {
  const uint64_t first = cluster_.Submit(Job("first", 40));
  ASSERT_EQ(cluster_.WaitForEnd(first), "SUCCEEDED");
  // In a folder that has nothing of the agent's below it.
  const std::string copy = cluster_.Path("elsewhere/copied");
  std::filesystem::create_directories(cluster_.Path("elsewhere"));
  std::filesystem::copy(Folder(first), copy);

  const ProcessResult imported =
      cluster_.Cli({"ckpt", "import", copy, "--name", "elsewhere", "--set", "tags.from=there"});
  EXPECT_EQ(imported.exit_code, 2) << "it takes no job file's keys";
  EXPECT_EQ(cluster_.Cli({"ckpt", "import", copy, "--step", "7"}).exit_code, 2);
  const ProcessResult done = cluster_.Cli({"ckpt", "import", copy, "--name", "elsewhere"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(
      done.out,
      HasSubstr("every hash is right: step 40, saved by job 1 (first) of another cluster\n"));
  EXPECT_THAT(done.out, HasSubstr("committed as step 40\n"));
  EXPECT_TRUE(WaitUntil(kPatience, [&] {
    return cluster_.Cli({"ckpt", "ls", "elsewhere"}).out.find("VERIFIED") != std::string::npos;
  }));
  const uint64_t second = cluster_.Submit(Job("second", 60), {"--resume-from", "elsewhere@40"});
  EXPECT_EQ(cluster_.WaitForEnd(second), "SUCCEEDED");
  EXPECT_EQ(FirstStep(second, 0), 40);
  EXPECT_EQ(Number(Summary(second), "step"), 60);

  // One byte of the copy is not what its manifest says.
  {
    std::fstream model(copy + "/model.safetensors", std::ios::in | std::ios::out);
    model.seekp(-1, std::ios::end);
    model.put('!');
  }
  const ProcessResult broken = cluster_.Cli({"ckpt", "import", copy});
  EXPECT_EQ(broken.exit_code, 1) << broken.out;
  EXPECT_THAT(broken.err, HasSubstr("model.safetensors"));
  EXPECT_EQ(cluster_.Cli({"ckpt", "ls", "import", "-o", "name"}).out, "");
}

TEST_F(ResumeFrom, WhatAnotherProgramSavedIsImportedByItsStep) {
  std::filesystem::create_directories(cluster_.Path("elsewhere/snapshot"));
  const std::string file = cluster_.Path("elsewhere/net.pt");
  std::ofstream(file) << "weights";
  const ProcessResult unknown = cluster_.Cli({"ckpt", "import", file});
  EXPECT_EQ(unknown.exit_code, 2) << unknown.err;
  EXPECT_THAT(unknown.err, HasSubstr("give --step"));
  const ProcessResult missing =
      cluster_.Cli({"ckpt", "import", cluster_.Path("elsewhere/nothing")});
  EXPECT_EQ(missing.exit_code, 1) << missing.out;
  EXPECT_THAT(missing.err, HasSubstr("must be seen under this path here"));
  ASSERT_EQ(cluster_.Cli({"ckpt", "import", file, "--step", "7", "--name", "net"}).exit_code, 0);
  EXPECT_TRUE(WaitUntil(kPatience, [&] {
    return cluster_.Cli({"ckpt", "ls", "net"}).out.find("VERIFIED") != std::string::npos;
  }));
  // A folder of links, as in a cache of Hugging Face's: nothing is taken over them.
  std::filesystem::create_symlink("../net.pt", cluster_.Path("elsewhere/snapshot/linked.pt"));
  const ProcessResult linked = cluster_.Cli(
      {"ckpt", "import", cluster_.Path("elsewhere/snapshot"), "--step", "8", "--name", "linked"});
  EXPECT_EQ(linked.exit_code, 1);
  EXPECT_THAT(linked.err, HasSubstr("linked.pt leads out of its folder"));
  const ProcessResult read = cluster_.Cli({"run", "--set", "checkpoint.resume_from=net", "--", "sh",
                                           "-c", "cat $MUSTER_RESUME/net.pt"});
  EXPECT_EQ(read.out, "weights\n") << read.err;
}

}  // namespace
}  // namespace muster::testing
