// What an agent does for commands with an image, with runtimes that are scripts: they write down
// how they were called, and fail as told. container_test has the real podman.
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/worker/agent/agent_fixture.h"

namespace muster::worker {
namespace {

using ::muster::testing::ProcessesMentioning;
using ::testing::HasSubstr;
using ::testing::Not;

namespace files = std::filesystem;

// $HERE is the script's folder. A file there named after a step says how that step fails.
constexpr char kPodman[] = R"(#!/bin/sh
HERE=$(dirname "$0")
echo "podman $*" >> "$HERE/calls"
case $1 in
  info) echo '[memory cpuset]' ;;
  image) test ! -e "$HERE/pull" ;;
  pull)
    test -e "$HERE/pull-hangs" && exec sleep 1000
    cat "$HERE/pull" >&2
    grep -q Error: "$HERE/pull" && exit 125
    exit 0 ;;
  rm)
    test -e "$HERE/rm" || exit 0
    cat "$HERE/rm" >&2
    rm "$HERE/rm"
    exit 125 ;;
  run)
    if test -e "$HERE/run"; then cat "$HERE/run" >&2; exit 125; fi
    shift
    while true; do
      case $1 in
        --env-file=*) FILE=${1#*=} ;;
        --volume=*:/muster/init:ro) INIT=${1#*=}; INIT=${INIT%%:*} ;;
        -*) ;;
        *) break ;;
      esac
      shift
    done
    stat -c %a "$FILE" > "$HERE/mode"
    shift
    exec env -i PATH=/bin:/usr/bin $(grep '^MUSTER_\|^RANK=\|^KEY=' "$FILE") "$INIT" "$@" ;;
esac
)";

constexpr char kApptainer[] = R"(#!/bin/sh
HERE=$(dirname "$0")
echo "apptainer $*" >> "$HERE/calls"
case $1 in
  pull) touch "$3" ;;
  exec)
    if test -e "$HERE/run"; then cat "$HERE/run" >&2; exit 255; fi
    while test "${1%.sif}" = "$1"; do shift; done
    shift
    KEY=$APPTAINERENV_KEY exec "$@" ;;
esac
)";

v1::ControllerMessage ImageMessage(uint64_t seq, const std::vector<std::string>& argv,
                                   const std::string& image = "localhost/x:1",
                                   uint32_t attempt = 1) {
  v1::ControllerMessage message = CommandMessage(seq, argv, 1, attempt);
  const nlohmann::json spec = {
      {"command", {{"argv", argv}, {"image", image}, {"env", {{"KEY", "secret"}}}}},
      {"restart", {{"controller_lost_timeout", "1h"}}},
      {"per_rank", {{"memory", "1GiB"}}}};
  message.mutable_start_ranks()->set_spec_json(spec.dump());
  return message;
}

class AgentContainerTest : public AgentTest {
 protected:
  AgentContainerTest() {
    files::create_directories(dir_ / "bin");
    const char* path = ::getenv("PATH");
    path_ = path == nullptr ? "" : path;
    ::setenv("PATH", absl::StrCat(dir_ / "bin", ":", path_).c_str(), 1);
    container_runtime_ = "auto";
  }
  ~AgentContainerTest() override {
    EndAgent();
    ::setenv("PATH", path_.c_str(), 1);
  }

  void Install(const std::string& name, const char* script) {
    Fail(name, script);
    ::chmod((dir_ / ("bin/" + name)).c_str(), 0755);
  }
  // `name` is a step of the script.
  void Fail(const std::string& name, const std::string& words) {
    std::ofstream(dir_ / ("bin/" + name)) << words;
  }
  std::string Read(const std::string& name) {
    std::ifstream file(dir_ / ("bin/" + name));
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  v1::RankEvent AwaitExit(uint32_t attempt = 1) {
    EXPECT_TRUE(controller_.Await([attempt](const Heard& heard) {
      return heard.FindEvent(v1::RankEvent::EXITED, 0, attempt) != nullptr;
    }));
    return *controller_.heard().FindEvent(v1::RankEvent::EXITED, 0, attempt);
  }

  std::string path_;
};

TEST_F(AgentContainerTest, ARankRunsInPodmanAndItsContainerIsRemovedBeforeItsEndIsTold) {
  Install("podman", kPodman);
  StartAgent();
  EXPECT_THAT(controller_.heard().hellos[0].container_runtimes(), ::testing::Contains("podman"));
  ASSERT_TRUE(controller_.Send(ImageMessage(1, {"sh", "-c", "echo $RANK $KEY $MUSTER_JOB_ID"})));
  const v1::RankEvent end = AwaitExit();
  EXPECT_TRUE(end.succeeded()) << end.message();
  ASSERT_TRUE(controller_.Await(Logged("0 secret 1\n")));
  const Heard heard = controller_.heard();
  EXPECT_NE(heard.FindEvent(v1::RankEvent::STARTED), nullptr);
  EXPECT_NE(heard.FindEvent(v1::RankEvent::RUNNING), nullptr);
  const std::string calls = Read("calls");
  EXPECT_THAT(calls, HasSubstr("--memory=1073741824b"));
  EXPECT_THAT(calls, HasSubstr("slot-0.sock"));
  EXPECT_THAT(calls, Not(HasSubstr("secret")));
  EXPECT_EQ(Read("mode"), "600\n");
  EXPECT_THAT(calls, HasSubstr("podman rm --force --time=0 --ignore muster-1-1-0-"));
}

TEST_F(AgentContainerTest, APullThatFailsIsAFailedStartInPodmansWords) {
  Install("podman", kPodman);
  Fail("pull", "Trying...\nError: no such host\n");
  StartAgent();
  ASSERT_TRUE(controller_.Send(ImageMessage(1, {"true"})));
  const v1::RankEvent end = AwaitExit();
  EXPECT_EQ(end.failure_class(), v1::START_FAILED);
  EXPECT_EQ(end.message(), "command.image localhost/x:1: podman: no such host");
  EXPECT_THAT(Read("calls"), Not(HasSubstr("podman run")));
}

TEST_F(AgentContainerTest, AnImageThatIsNotHereIsPulledOnce) {
  Install("podman", kPodman);
  Fail("pull", "");
  StartAgent();
  ASSERT_TRUE(controller_.Send(ImageMessage(1, {"true"})));
  EXPECT_TRUE(AwaitExit().succeeded());
  EXPECT_THAT(Read("calls"), HasSubstr("podman pull --quiet localhost/x:1\n"));
}

TEST_F(AgentContainerTest, AStopEndsAPullThatNobodyWaitsForAnyMore) {
  Install("podman", kPodman);
  Fail("pull", "");
  Fail("pull-hangs", "");
  StartAgent();
  ASSERT_TRUE(controller_.Send(ImageMessage(1, {"true"})));
  const auto pulls = [this] { return ProcessesMentioning(dir_ / "data/tools").size(); };
  ASSERT_TRUE(
      WaitUntil(kPatience, [&] { return Read("calls").find("podman pull") != std::string::npos; }));
  ASSERT_TRUE(controller_.Await([](const Heard& heard) {
    return heard.last_heartbeat.ranks_size() == 1 &&
           heard.last_heartbeat.ranks(0).phase() == "rendezvous";
  }));
  ASSERT_TRUE(controller_.Send(StopMessage(2, v1::StopRanks::TERM, 1000)));
  EXPECT_TRUE(AwaitExit().stopped());
  EXPECT_EQ(pulls(), 0u);
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return files::is_empty(dir_ / "data/tools"); }));
}

TEST_F(AgentContainerTest, WhatPodmanCannotStartIsAFailedStartToo) {
  Install("podman", kPodman);
  Fail("run", "level=warning x\nError: crun: no cgroup\n");
  StartAgent();
  ASSERT_TRUE(controller_.Send(ImageMessage(1, {"true"})));
  EXPECT_EQ(AwaitExit().failure_class(), v1::START_FAILED);
  EXPECT_EQ(AwaitExit().message(), "crun: no cgroup");
  EXPECT_EQ(controller_.heard().FindEvent(v1::RankEvent::RUNNING), nullptr);
  EXPECT_THAT(Read("calls"), HasSubstr("podman rm")) << "it may have made one";
  files::remove(dir_ / "bin/run");
  ASSERT_TRUE(controller_.Send(ImageMessage(2, {"no-such-program"}, "localhost/x:1", 2)));
  EXPECT_EQ(AwaitExit(2).failure_class(), v1::START_FAILED);
  EXPECT_EQ(AwaitExit(2).message(),
            "cannot run `no-such-program` in the container: No such file or directory");
}

TEST_F(AgentContainerTest, TheProgramsExitCodesAndSignalsAreItsOwn) {
  Install("podman", kPodman);
  StartAgent();
  ASSERT_TRUE(controller_.Send(ImageMessage(1, {"sh", "-c", "echo Error: mine >&2; exit 125"})));
  EXPECT_EQ(AwaitExit().failure_class(), v1::APPLICATION);
  EXPECT_EQ(AwaitExit().exit_code(), 125);
  ASSERT_TRUE(controller_.Send(ImageMessage(2, {"sh", "-c", "kill -SEGV $$"}, "x", 2)));
  EXPECT_EQ(AwaitExit(2).failure_class(), v1::RANK_KILLED);
  EXPECT_EQ(AwaitExit(2).signal(), SIGSEGV);
  ASSERT_TRUE(controller_.Send(ImageMessage(3, {"sh", "-c", "exit 139"}, "x", 3)));
  EXPECT_EQ(AwaitExit(3).failure_class(), v1::APPLICATION);
  EXPECT_EQ(AwaitExit(3).exit_code(), 139);
}

TEST_F(AgentContainerTest, ASlotIsHeldUntilTheContainerIsRemoved) {
  Install("podman", kPodman);
  Fail("rm", "Error: storage is busy\n");
  StartAgent();
  ASSERT_TRUE(controller_.Send(ImageMessage(1, {"true"})));
  EXPECT_TRUE(AwaitExit().succeeded());
  const std::string calls = Read("calls");
  const size_t first = calls.find("podman rm");
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(calls.find("podman rm", first + 1), std::string::npos) << "it was asked again";
}

TEST_F(AgentContainerTest, ASaveReachesTheProgramAndATermEndsIt) {
  Install("podman", kPodman);
  StartAgent();
  ASSERT_TRUE(controller_.Send(ImageMessage(
      1, {"sh", "-c", "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.02; done"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  ASSERT_TRUE(controller_.Send(StopMessage(2, v1::StopRanks::SAVE, 60'000)));
  EXPECT_TRUE(AwaitExit().stopped());
  EXPECT_TRUE(controller_.Await(Logged("saved")));
  ASSERT_TRUE(controller_.Send(ImageMessage(3, {"sh", "-c", "echo up; exec sleep 1000"}, "x", 2)));
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return heard.Log(0, 2) == "up\n"; }));
  ASSERT_TRUE(controller_.Send(StopMessage(4, v1::StopRanks::TERM, 60'000, 2)));
  EXPECT_TRUE(AwaitExit(2).stopped());
}

TEST_F(AgentContainerTest, ANewAgentRemovesWhatAnEarlierOneLeft) {
  Install("podman", kPodman);
  const std::string folder = dir_ / "data/ranks/job-9.a1.g1.r0";
  files::create_directories(folder);
  std::ofstream(folder + "/container") << "muster-9-1-0-x";
  StartAgent();
  EXPECT_THAT(Read("calls"), HasSubstr("podman rm --force --time=0 --ignore muster-9-1-0-x\n"));
  EXPECT_FALSE(files::exists(folder + "/container"));
}

TEST_F(AgentContainerTest, WhatARankWroteInPlaceOfItsContainersNameIsNotRemoved) {
  Install("podman", kPodman);
  const std::pair<const char*, const char*> planted[] = {{"job-8.a1.g1.r0", "--all"},
                                                         {"job-9.a1.g1.r0", "muster-8-1-0-x"},
                                                         {"job-10.a1.g1.r0", "muster-10-1-0-x y"},
                                                         {"job-11.a1.g1.r0", "database"}};
  for (const auto& [rank, name] : planted) {
    files::create_directories(dir_ / ("data/ranks/" + std::string(rank)));
    std::ofstream(dir_ / ("data/ranks/" + std::string(rank) + "/container")) << name;
  }
  StartAgent();
  EXPECT_THAT(Read("calls"), Not(HasSubstr("podman rm")));
}

// By its name alone: where no cgroup tells, a helper of a container that lives must not be ended
// with another rank.
TEST_F(AgentContainerTest, WhatIsCalledAsAHelperIsSparedWhileAContainerIsHere) {
  Install("podman", kPodman);
  cgroups_ = false;
  StartAgent();
  ASSERT_TRUE(controller_.Send(ImageMessage(1, {"sleep", "1000"})));
  ASSERT_TRUE(controller_.Await(
      [](const Heard& heard) { return heard.FindEvent(v1::RankEvent::RUNNING) != nullptr; }));
  const std::string child = dir_ / "child";
  const std::string program = dir_ / "conmon";
  v1::ControllerMessage other = CommandMessage(
      2,
      {"sh", "-c",
       absl::StrCat("cp /bin/sleep ", program, "; env -i setsid sh -c 'echo $$ > ", child,
                    "; exec ", program, " 1000 > /dev/null 2>&1 < /dev/null' & until [ \"$(cat ",
                    "/proc/$(cat ", child, ")/comm)\" = conmon ]; do sleep 0.01; done")},
      1, /*attempt=*/2);
  other.mutable_start_ranks()->mutable_fence()->set_job_id(2);
  other.mutable_start_ranks()->mutable_ranks(0)->set_slots(0, 1);
  ASSERT_TRUE(controller_.Send(other));
  EXPECT_TRUE(AwaitExit(2).succeeded());
  uint32_t pid = 0;
  std::ifstream(child) >> pid;
  ASSERT_NE(pid, 0u);
  EXPECT_TRUE(Lives(pid));
  ::kill(static_cast<pid_t>(pid), SIGKILL);
}

TEST_F(AgentContainerTest, WithoutARuntimeAnImageIsRefusedAndAFileWithoutApptainer) {
  Install("podman", kPodman);
  container_runtime_ = "podman";
  StartAgent();
  ASSERT_TRUE(controller_.Send(ImageMessage(1, {"true"}, "/images/x.sif")));
  ASSERT_TRUE(controller_.Await(Acked(1)));
  EXPECT_THAT(controller_.heard().assignment_acks.at(1), HasSubstr("no container runtime for"));
}

TEST_F(AgentContainerTest, WhereCommandsAreNotAllowedNoRuntimeIsOffered) {
  Install("podman", kPodman);
  allow_commands_ = false;
  StartAgent();
  EXPECT_EQ(controller_.heard().hellos[0].container_runtimes_size(), 0);
}

TEST_F(AgentContainerTest, ImagesThatWerePulledLongAgoAreRemoved) {
  Install("podman", kPodman);
  Fail("pull", "pulling\n");
  StartAgent();
  const size_t most = Containers::Options().most_images;
  for (uint32_t attempt = 1; attempt <= most + 1; ++attempt) {
    ASSERT_TRUE(
        controller_.Send(ImageMessage(attempt, {"true"}, absl::StrCat("a/b:", attempt), attempt)));
    AwaitExit(attempt);
  }
  EXPECT_TRUE(WaitUntil(
      kPatience, [&] { return Read("calls").find("podman rmi a/b:1\n") != std::string::npos; }));
  EXPECT_THAT(Read("calls"), Not(HasSubstr("podman rmi a/b:2\n")));
}

TEST(InitTest, AVariableOfSeveralLinesArrives) {
  const TempDir dir;
  // NAME=one\ntwo, and one that is broken: it is dropped.
  ::muster::testing::Subprocess process(
      {Binary("muster-init"), "/bin/sh", "-c", "echo \"$NAME\"; env | grep -c MUSTER_PACKED"},
      ::muster::testing::Environment{{"MUSTER_PACKED_0", "4e414d453d6f6e650a74776f"},
                                     {"MUSTER_PACKED_1", "zz"}},
      dir / "log");
  ASSERT_TRUE(process.Wait(kPatience));
  std::ifstream log(dir / "log");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(log), {}), "one\ntwo\n0\n");
}

TEST_F(AgentContainerTest, ApptainerPullsToAFileAndRunsIt) {
  Install("apptainer", kApptainer);
  container_runtime_ = "apptainer";
  container_options_ = {"--writable-tmpfs"};
  StartAgent();
  ASSERT_TRUE(controller_.Send(ImageMessage(1, {"sh", "-c", "echo $KEY"}, "a/b:1")));
  EXPECT_TRUE(AwaitExit().succeeded());
  ASSERT_TRUE(controller_.Await(Logged("secret\n")));
  const std::string calls = Read("calls");
  const std::string file = files::canonical(dir_ / "data/images/a%b:1.sif").string();
  EXPECT_THAT(calls, HasSubstr("apptainer pull --force " + file + ".tmp docker://a/b:1\n"));
  EXPECT_THAT(calls, HasSubstr("--pwd=/ --writable-tmpfs " + file + " sh -c"));
  EXPECT_THAT(calls, Not(HasSubstr("secret")));
  Fail("run", "FATAL:   no squashfs\n");
  ASSERT_TRUE(controller_.Send(ImageMessage(2, {"true"}, "a/b:1", 2)));
  EXPECT_EQ(AwaitExit(2).failure_class(), v1::START_FAILED);
  EXPECT_EQ(AwaitExit(2).message(), "no squashfs");
  ASSERT_TRUE(controller_.Send(ImageMessage(3, {"true"}, "/no/such.sif", 3)));
  EXPECT_EQ(AwaitExit(3).message(), "command.image: no file /no/such.sif is on this worker");
}

}  // namespace
}  // namespace muster::worker
