// Commands in containers on a real Muster with the real podman: from the flag to what a program
// finds inside, and that no container outlives its attempt. agent_podman_test has the corners.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/cluster.h"
#include "tests/support/container_host.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

// Of containers of job 1.
constexpr char kNames[] = "^muster-1-";

class ContainerWalk : public ::testing::Test {
 protected:
  void SetUp() override {
    MUSTER_NEEDS_CONTAINERS();
    ASSERT_EQ(host_->Containers(kNames), "") << "left by an earlier run";
    ASSERT_NO_FATAL_FAILURE(cluster_.Up(1, {"--slots-per-worker", "2"}));
  }
  void TearDown() override {
    if (!host_->reason().empty()) return;
    cluster_.Down();
    EXPECT_EQ(host_->Containers(kNames), "") << "a container is left";
  }

  uint64_t Submit(const Words& flags, const Words& program) {
    Words args = {"submit", "-q", "--image", kTestImage};
    args.insert(args.end(), flags.begin(), flags.end());
    args.insert(args.end(), {"--", kTestProgram});
    args.insert(args.end(), program.begin(), program.end());
    const ProcessResult submit = cluster_.Cli(args);
    EXPECT_EQ(submit.exit_code, 0) << submit.err;
    return submit.exit_code == 0 ? std::stoull(submit.out) : 0;
  }
  std::string Logs(uint64_t job) { return cluster_.Cli({"logs", absl::StrCat(job)}).out; }
  void AwaitLog(uint64_t job, const std::string& text) {
    EXPECT_TRUE(
        WaitUntil(absl::Minutes(1), [&] { return Logs(job).find(text) != std::string::npos; }))
        << text << " is not in " << Logs(job);
  }
  // One line of `podman ps` for each container of the test's job.
  size_t Count() {
    const std::string names = host_->Containers(kNames);
    return static_cast<size_t>(std::count(names.begin(), names.end(), '\n'));
  }
  // What runs inside, seen from here as processes of this machine, with the podman that started it.
  static size_t Programs() { return ProcessesMentioning(kTestProgram).size(); }

  const ContainerHost* host_ = &ContainerHost::Get();
  Cluster cluster_;
};

TEST_F(ContainerWalk, RanksFindTheirEnvironmentSocketAndFoldersInside) {
  const std::string folder = cluster_.Path("code");
  std::filesystem::create_directories(folder + "/sub");
  std::ofstream(folder + "/sub/words") << "from the folder\n";
  const uint64_t job = Submit(
      {"--ranks", "2", "--upload", folder, "--workdir", "sub", "--env", "SECRET=a b\"c", "--env",
       "LINES=one\ntwo"},
      {"cwd", "cat:words", "print:RANK", "print:WORLD_SIZE", "print:MASTER_PORT", "print:SECRET",
       "print:LINES", "print:HOME", "write:MUSTER_CHECKPOINT_DIR", "report"});
  EXPECT_EQ(cluster_.WaitForEnd(job), "SUCCEEDED");
  const std::string logs = Logs(job);
  for (const char* line :
       {"a1.r0 | cwd /muster/work/sub\n", "a1.r1 | from the folder\n", "a1.r0 | RANK=0\n",
        "a1.r1 | RANK=1\n", "a1.r1 | WORLD_SIZE=2\n", "a1.r0 | SECRET=a b\"c\n",
        "a1.r0 | LINES=one\n", "a1.r0 | two\n", "a1.r0 | HOME=/\n", "a1.r0 | write done\n",
        "a1.r0 | report acked\n", "a1.r1 | report acked\n"}) {
    EXPECT_THAT(logs, HasSubstr(line));
  }
  EXPECT_EQ(cluster_.Cli({"metrics", absl::StrCat(job), "-o", "json"}).exit_code, 0);
  EXPECT_EQ(cluster_.Step(job), 7);
  EXPECT_EQ(Count(), 0u) << "it is removed before the job has ended";
}

TEST_F(ContainerWalk, ADrainReachesTheProgramAndItLeavesByItself) {
  const uint64_t job = Submit({}, {"await_term", "say:saved"});
  AwaitLog(job, "waiting");
  ASSERT_EQ(cluster_.Cli({"nodes", "drain", "worker-1"}).exit_code, 0);
  AwaitLog(job, "asked\nsaved\n");
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] { return Count() == 0; }));
  EXPECT_EQ(cluster_.State(job), "PENDING");
  cluster_.Cli({"cancel", absl::StrCat(job)});
}

TEST_F(ContainerWalk, ACancelLeavesNoContainerAndNoProcess) {
  const uint64_t job = Submit({"--ranks", "2"}, {"leave", "say:up", "hang"});
  AwaitLog(job, "a1.r0 | up");
  AwaitLog(job, "a1.r1 | up");
  EXPECT_EQ(Count(), 2u);
  ASSERT_EQ(cluster_.Cli({"cancel", absl::StrCat(job)}).exit_code, 0);
  EXPECT_EQ(cluster_.WaitForEnd(job), "CANCELLED");
  EXPECT_EQ(Count(), 0u);
  EXPECT_EQ(Programs(), 0u) << "what hid in a session of its own";
}

TEST_F(ContainerWalk, TheContainerDiesWithItsAgentAndTheNextOneRemovesIt) {
  const uint64_t job = Submit({}, {"say:up", "hang"});
  AwaitLog(job, "up");
  ASSERT_EQ(Count(), 1u);
  const std::string first = host_->Containers(kNames);
  ASSERT_EQ(::kill(cluster_.DaemonProcess("worker-1").pid, SIGKILL), 0);
  AwaitLog(job, "a2.r0 | up");
  EXPECT_EQ(Count(), 1u);
  EXPECT_NE(host_->Containers(kNames), first);
  EXPECT_EQ(Programs(), 3u) << "podman, muster-init and the program, of the second attempt alone";
  cluster_.Cli({"cancel", absl::StrCat(job)});
  EXPECT_EQ(cluster_.WaitForEnd(job), "CANCELLED");
}

TEST_F(ContainerWalk, HowTheProgramEndsIsTold) {
  const auto failure = [&](uint64_t job) {
    EXPECT_EQ(cluster_.WaitForEnd(job), "FAILED");
    const Json show = cluster_.Show(job);
    return absl::StrCat(Text(Member(show, "attempts").at(0), "failure_class"), ": ",
                        Text(Member(show, "summary"), "message"));
  };
  const Words once = {"--set", "restart.max_restarts=0"};
  EXPECT_THAT(failure(Submit(once, {"exit:3"})), HasSubstr("APPLICATION: "));
  EXPECT_THAT(failure(Submit(once, {"die:11"})), HasSubstr("killed by signal 11"));
  const ProcessResult nothing = cluster_.Cli({"submit", "-q", "--set", "restart.max_restarts=0",
                                              "--image", kTestImage, "--", "/no-such-program"});
  ASSERT_EQ(nothing.exit_code, 0) << nothing.err;
  EXPECT_THAT(failure(std::stoull(nothing.out)),
              HasSubstr("cannot run `/no-such-program` in the container"));
  const ProcessResult unknown =
      cluster_.Cli({"submit", "-q", "--set", "restart.max_restarts=0", "--image",
                    "localhost/muster-no-such-image:1", "--", kTestProgram});
  ASSERT_EQ(unknown.exit_code, 0) << unknown.err;
  const std::string why = failure(std::stoull(unknown.out));
  EXPECT_THAT(why, HasSubstr("START_FAILED"));
  EXPECT_THAT(why, HasSubstr("podman: initializing source docker://localhost/muster-no-such"));
}

TEST_F(ContainerWalk, WorkersSayWhatTheyHaveAndAFileNeedsApptainer) {
  EXPECT_THAT(cluster_.Cli({"nodes", "-o", "wide"}).out, HasSubstr("podman"));
  if (RunProcess({"apptainer", "--version"}, {}, absl::Minutes(1)).exit_code == 0) return;
  const ProcessResult refused = cluster_.Cli({"submit", "--image", "/images/x.sif", "--", "true"});
  EXPECT_EQ(refused.exit_code, 7) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("install apptainer there"));
}

}  // namespace
}  // namespace muster::testing
