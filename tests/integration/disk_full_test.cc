// A full disk under the controller: new submits get a clear no, the job that runs goes on, and once
// there is room again nothing is missing. Needs root, to mount a small tmpfs; skipped otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/digits_job.h"
#include "tests/integration/run_record.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int64_t kDiskBytes = 32 << 20;

// A tmpfs for as long as it lives.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& path) : path_(path) {
    std::filesystem::create_directories(path);
    if (::mount("tmpfs", path.c_str(), "tmpfs", 0,
                absl::StrCat("size=", kDiskBytes, ",mode=0700").c_str()) != 0) {
      error_ = absl::StrCat("cannot mount a tmpfs: ", std::strerror(errno));
    }
  }
  ~SmallDisk() {
    if (error_.empty()) ::umount2(path_.c_str(), MNT_DETACH);
  }
  const std::string& error() const { return error_; }

  // Writes until nothing fits any more.
  void Fill() {
    const std::string block(4096, 'x');
    std::ofstream ballast(path_ + "/ballast", std::ios::binary | std::ios::app);
    while (ballast.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  void Free() { std::filesystem::remove(path_ + "/ballast"); }

 private:
  std::string path_;
  std::string error_;
};

TEST(DiskFull, RefusesSubmitsAndLosesNothing) {
  // The disk goes after the cluster that stands on it.
  TempDir disk_dir;
  SmallDisk disk(disk_dir / "disk");
  if (!disk.error().empty()) GTEST_SKIP() << disk.error() << " (needs root)";
  Cluster cluster;
  std::filesystem::create_directories(cluster.Path("local"));
  std::filesystem::create_directory_symlink(disk_dir / "disk", cluster.Path("local/controller"));
  ASSERT_NO_FATAL_FAILURE(cluster.Up(2));
  DigitsJob running;
  running.name = "running";
  running.steps = 600;
  running.every_steps = 40;
  running.checkpoint_url = cluster.Path("checkpoints");
  const uint64_t job = cluster.Submit(ToYaml(running));
  ASSERT_GT(job, 0u);
  ASSERT_NO_FATAL_FAILURE(cluster.WaitForStep(job, 20));
  disk.Fill();

  // Pages that the databases already hold may take a submit or two; then there is no room.
  ProcessResult refused;
  int accepted = 0;
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] {
    DigitsJob more;
    more.name = absl::StrCat("more-", accepted);
    more.more = "placement: {pool: nowhere, wait_for_capacity: true}\n";
    const std::string path = cluster.Path("more.yaml");
    std::ofstream(path) << ToYaml(more);
    refused = cluster.Cli({"submit", "-f", path});
    accepted += refused.exit_code == 0 ? 1 : 0;
    disk.Fill();
    return refused.exit_code != 0;
  }));
  EXPECT_THAT(absl::AsciiStrToLower(refused.err), AnyOf(HasSubstr("disk"), HasSubstr("space")));
  EXPECT_EQ(cluster.Cli({"ls"}).exit_code, 0) << "reading still works";
  EXPECT_EQ(Number(cluster.Daemon("musterd"), "restarts"), 0);

  disk.Free();
  EXPECT_EQ(cluster.WaitForEnd(job), "SUCCEEDED") << cluster.Show(job).dump(1);
  EXPECT_EQ(AttemptsInOrder(cluster.Show(job)).size(), 1u);
  const Json answer = cluster.CliJson({"ls"});
  EXPECT_EQ((answer.is_array() ? answer : Member(answer, "jobs")).size(),
            static_cast<size_t>(accepted + 1))
      << "every accepted submit, and no refused one";

  // Every step's report arrived, those of the time without room too.
  const RunRecord run = ReadRun(cluster, job);
  for (int64_t step = 5; step <= running.steps; step += 5) {
    EXPECT_EQ(run.metrics.count({"loss", step}), 1u) << "loss at step " << step;
  }
}

}  // namespace
}  // namespace muster::testing
