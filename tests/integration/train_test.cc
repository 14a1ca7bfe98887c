// The main job, end to end, on real input: the digits reach their accuracy, and a plain Python
// program that knows nothing of Muster scores the committed checkpoint the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/integration/digits_job.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::Ge;

std::string Python() {
  const char* venv = ::getenv("MUSTER_VENV");
  return (venv == nullptr ? SourceDir() + "/.venv" : std::string(venv)) + "/bin/python";
}

TEST(Train, DigitsReach97PercentAndPythonAgreesToTheSample) {
  Cluster cluster;
  ASSERT_NO_FATAL_FAILURE(cluster.Up(2));
  const Json submitted =
      cluster.CliJson({"submit", "-f", SourceDir() + "/configs/digits-resnet18.yaml", "--set",
                       absl::StrCat("train.data.digits.path=", DigitsFolder())});
  const uint64_t job = static_cast<uint64_t>(Number(submitted, "job_id"));
  ASSERT_GT(job, 0u);
  const ProcessResult waited = cluster.Cli({"wait", absl::StrCat(job)}, absl::Minutes(6));
  EXPECT_EQ(waited.exit_code, 0) << waited.out << waited.err;

  const Json show = cluster.Show(job);
  const Json& summary = Member(show, "summary");
  EXPECT_EQ(Text(summary, "state"), "SUCCEEDED");
  EXPECT_EQ(Number(summary, "restarts"), 0);
  EXPECT_EQ(Number(summary, "step"), Number(summary, "total_steps"));
  EXPECT_THAT(Number(summary, "test_accuracy"), Ge(0.97));

  // The best checkpoint, chosen on validation: the newest one that was the best so far.
  std::string best;
  double best_accuracy = 0, best_step = -1;
  for (const Json& checkpoint : Member(show, "checkpoints")) {
    const bool usable =
        Text(checkpoint, "state") == "COMMITTED" || Text(checkpoint, "state") == "VERIFIED";
    if (!usable || Member(checkpoint, "best") != true || Number(checkpoint, "step") < best_step) {
      continue;
    }
    best = Text(checkpoint, "path");
    best_step = Number(checkpoint, "step");
    best_accuracy = Number(checkpoint, "validation_accuracy");
  }
  ASSERT_TRUE(std::filesystem::exists(best + "/MANIFEST.json")) << show.dump(1);
  const ProcessResult scored =
      RunProcess({Python(), SourceDir() + "/scripts/score_digits.py", best, DigitsFolder()}, {},
                 absl::Minutes(2));
  ASSERT_EQ(scored.exit_code, 0) << scored.out << scored.err;
  const Json score = Json::parse(scored.out, nullptr, /*allow_exceptions=*/false);
  EXPECT_GT(Number(score, "total"), 300);
  EXPECT_EQ(Number(score, "correct"),
            std::round(Number(summary, "test_accuracy") * Number(score, "total")))
      << scored.out;
  EXPECT_EQ(Number(score, "validation_correct"),
            std::round(best_accuracy * Number(score, "validation_total")))
      << scored.out;
}

TEST(Train, WithoutAProgressTimeoutRanksGatherOverEachTransportOfOneHost) {
  Cluster cluster;
  ASSERT_NO_FATAL_FAILURE(cluster.Up(2));
  for (const std::string transport : {"shared_memory", "gloo"}) {
    DigitsJob job;
    job.steps = 20;
    const uint64_t id = cluster.Submit(
        ToYaml(job),
        {"--set", "restart.progress_timeout=0s", "--set", "train.parallel.transport=" + transport});
    EXPECT_EQ(cluster.WaitForEnd(id, absl::Minutes(2)), "SUCCEEDED") << cluster.Show(id).dump(1);
    EXPECT_EQ(Number(Member(cluster.Show(id), "summary"), "restarts"), 0);
  }
}

}  // namespace
}  // namespace muster::testing
