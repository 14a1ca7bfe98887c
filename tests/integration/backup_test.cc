// A controller whose data folder goes back to a backup, on a real Muster: the agents that worked
// for the newer state start again, and jobs run on them.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>

#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

class Backup : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NO_FATAL_FAILURE(cluster_.Up(1)); }

  std::string RunOne() {
    const ProcessResult result =
        cluster_.Cli({"submit", "--name", "one", "-o", "json", "--", "true"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const Json answer = Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
    return cluster_.WaitForEnd(static_cast<uint64_t>(Number(answer, "job_id")), kPatience);
  }
  // With musterd's SIGKILL behind it, and the supervisor held so that it starts no other one.
  void KillController() {
    const ProcessId controller = cluster_.DaemonProcess("musterd");
    ASSERT_EQ(::kill(cluster_.Supervisor().pid, SIGSTOP), 0);
    ASSERT_EQ(::kill(controller.pid, SIGKILL), 0);
    ASSERT_TRUE(WaitUntil(kPatience, [&] { return !IsAlive(controller); }));
  }
  void LetItStart() { ASSERT_EQ(::kill(cluster_.Supervisor().pid, SIGCONT), 0); }

  Cluster cluster_;
};

TEST_F(Backup, JobsRunOnTheSameWorkersAfterOneWasPutBack) {
  ASSERT_EQ(RunOne(), "SUCCEEDED");
  const std::string data = cluster_.Path("local/controller");
  const std::string copy = cluster_.Path("backup");
  const ProcessId agent = cluster_.DaemonProcess("worker-1");
  ASSERT_NO_FATAL_FAILURE(KillController());
  std::filesystem::copy(data, copy, std::filesystem::copy_options::recursive);
  ASSERT_NO_FATAL_FAILURE(LetItStart());
  // The backup does not know these: their assignments have numbers that it gives a second time.
  for (int i = 0; i < 3; ++i) ASSERT_EQ(RunOne(), "SUCCEEDED");
  ASSERT_TRUE(IsAlive(agent));
  ASSERT_NO_FATAL_FAILURE(KillController());
  std::filesystem::remove_all(data);
  std::filesystem::rename(copy, data);
  ASSERT_NO_FATAL_FAILURE(LetItStart());
  EXPECT_EQ(RunOne(), "SUCCEEDED");
}

}  // namespace
}  // namespace muster::testing
