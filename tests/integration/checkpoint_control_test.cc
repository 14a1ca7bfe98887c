// Checkpoints that people pin and remove, on a real Muster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

constexpr absl::Duration kPatience = absl::Minutes(1);

class CheckpointControl : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::access("/usr/bin/socat", X_OK), 0) << "socat is missing: scripts/setup --tests";
    ASSERT_NO_FATAL_FAILURE(cluster_.Up(1));
  }
  void TearDown() override { cluster_.Down(); }

  // Saves a checkpoint of step N when the file save-N is there, and ends when the file `end` is.
  uint64_t Submit() {
    const std::string script = absl::StrCat(
        "step=1; cd ", cluster_.Path(""), "\n",
        "while [ ! -e end ]; do\n"
        "  if [ ! -e save-$step ]; then sleep 0.05; continue; fi\n"
        "  echo $step > $MUSTER_CHECKPOINT_DIR/count.txt\n"
        "  echo '{\"type\":\"checkpoint\",\"kind\":\"offer\",\"step\":'$step',\"path\":\"'"
        "$MUSTER_CHECKPOINT_DIR/count.txt'\"}' | socat -t 60 - UNIX-CONNECT:$MUSTER_SOCKET\n"
        "  step=$((step + 1))\n"
        "done\n");
    const ProcessResult result =
        cluster_.Cli({"submit", "--name", "saves", "--set", "checkpoint.keep_last=2", "-o", "json",
                      "--", "sh", "-c", script});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const Json answer = Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
    return static_cast<uint64_t>(Number(answer, "job_id"));
  }
  void Touch(const std::string& name) { std::ofstream(cluster_.Path(name)) << ""; }
  // The job's checkpoint of that step, once it is in that state.
  Json Await(uint64_t job, int64_t step, const std::string& state) {
    Json found;
    EXPECT_TRUE(WaitUntil(kPatience, [&] {
      for (const Json& row : cluster_.CliJson({"ckpt", "ls", absl::StrCat(job)})) {
        if (Number(row, "step") == static_cast<double>(step)) found = row;
      }
      return Text(found, "state") == state;
    })) << found.dump(1);
    return found;
  }
  Json Save(uint64_t job, int64_t step) {
    Touch(absl::StrCat("save-", step));
    return Await(job, step, "VERIFIED");
  }
  ProcessResult Ckpt(const std::string& verb, const Words& more) {
    Words args = {"ckpt", verb};
    args.insert(args.end(), more.begin(), more.end());
    return cluster_.Cli(args);
  }

  Cluster cluster_;
};

TEST_F(CheckpointControl, APinnedOneStaysUntilItIsUnpinnedAndARemovedOneGoesFromTheDisk) {
  const uint64_t job = Submit();
  const std::string first = Text(Save(job, 1), "path");
  ProcessResult result = Ckpt("pin", {absl::StrCat(job, "@1")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  Save(job, 2);
  const std::string third = Text(Save(job, 3), "path");
  const std::string last = Text(Save(job, 4), "path");
  Await(job, 2, "DELETED");
  EXPECT_THAT(Text(Await(job, 1, "VERIFIED"), "pinned_by"), HasSubstr("user:"));
  EXPECT_TRUE(std::filesystem::exists(first));
  EXPECT_EQ(Ckpt("rm", {absl::StrCat(job, "@1")}).exit_code, 6);
  EXPECT_EQ(Ckpt("unpin", {absl::StrCat(job, "@1")}).exit_code, 0);
  Await(job, 1, "DELETED");
  EXPECT_FALSE(std::filesystem::exists(first));

  Touch("end");
  ASSERT_EQ(cluster_.WaitForEnd(job), "SUCCEEDED");
  EXPECT_THAT(Ckpt("gc", {"--dry-run"}).out, HasSubstr(absl::StrCat(job, " saves")));
  result = Ckpt("rm", {absl::StrCat(job, "@3")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(Text(Await(job, 3, "DELETED"), "message"), HasSubstr("removed by user:"));
  EXPECT_FALSE(std::filesystem::exists(third));
  EXPECT_EQ(Ckpt("rm", {absl::StrCat(job, "@3")}).exit_code, 0) << "once more";
  result = Ckpt("rm", {absl::StrCat(job, "@4")});
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_THAT(result.err, HasSubstr("--force"));
  EXPECT_TRUE(std::filesystem::exists(last));
  EXPECT_EQ(Ckpt("rm", {absl::StrCat(job, "@4"), "--force"}).exit_code, 0);
  Await(job, 4, "DELETED");
  EXPECT_FALSE(std::filesystem::exists(last));
}

}  // namespace
}  // namespace muster::testing
