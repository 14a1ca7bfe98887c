#include "worker/agent/container/container_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ContainerRun WantedRun() {
  return {.name = "muster-7-1-0-w",
          .image = "python:3.12",
          .workdir = "",
          .argv = {"python", "--privileged", "a b"},
          .environment = {"MUSTER_RANK_DIR=/r", "KEY=secret =x", "LINES=a\nb"},
          .mounts = {{"/d/slot-0.sock", "/d/slot-0.sock"}, {"/c/step-9", "/c/step-9", true}},
          .gpus = {},
          .cpus = {},
          .memory_bytes = 0,
          .options = {"--ulimit=nofile=64"},
          .env_file = "/r/variables",
          .init = "/bin/muster-init"};
}

ContainerCommand Make(ContainerRuntime runtime, const ContainerRun& run) {
  const absl::StatusOr<ContainerCommand> made = MakeContainerCommand(runtime, run);
  EXPECT_OK(made);
  return made.ok() ? *made : ContainerCommand();
}

TEST(PodmanCommand, RunsTheProgramUnderOurInitWithTheSitesWordsLast) {
  const ContainerCommand command = Make(ContainerRuntime::kPodman, WantedRun());
  EXPECT_THAT(
      command.argv,
      ElementsAre("run", "--name=muster-7-1-0-w", "--pull=never", "--network=host", "--ipc=host",
                  "--log-driver=none", "--preserve-fds=1", "--env-file=/r/variables",
                  "--volume=/bin/muster-init:/muster/init:ro", "--entrypoint=/muster/init",
                  "--volume=/d/slot-0.sock:/d/slot-0.sock", "--volume=/c/step-9:/c/step-9:ro",
                  "--ulimit=nofile=64", "python:3.12", "python", "--privileged", "a b"));
}

TEST(PodmanCommand, NoValueOfAVariableStandsInItsWords) {
  const ContainerCommand command = Make(ContainerRuntime::kPodman, WantedRun());
  for (const std::string& word : command.argv) EXPECT_THAT(word, Not(HasSubstr("secret")));
  EXPECT_EQ(command.env_file,
            "MUSTER_RANK_DIR=/r\nKEY=secret =x\nMUSTER_PACKED_0=4c494e45533d610a62\n");
}

TEST(PodmanCommand, NothingOfAJobsStandsInPodmansOwnEnvironment) {
  ContainerRun run = WantedRun();
  run.environment = {"LD_PRELOAD=/evil.so\n", "PATH=/evil\n:/bin", "CONTAINERS_CONF=/evil\r",
                     "NAME=one\nMUSTER_LINE=two"};
  const ContainerCommand command = Make(ContainerRuntime::kPodman, run);
  EXPECT_THAT(command.environment, ElementsAre());
  for (const std::string& word : command.argv) EXPECT_THAT(word, Not(HasSubstr("--env=")));
  EXPECT_THAT(command.env_file, Not(HasSubstr("evil")));
  EXPECT_THAT(command.env_file, Not(HasSubstr("MUSTER_LINE")));
  EXPECT_EQ(std::count(command.env_file.begin(), command.env_file.end(), '\n'), 4);
}

TEST(PodmanCommand, NamesWhatTheRankGets) {
  ContainerRun run = WantedRun();
  run.workdir = "/muster/work/src";
  run.gpus = {0, 3};
  run.cpus = {2, 5};
  run.memory_bytes = 1 << 20;
  const std::vector<std::string> argv = Make(ContainerRuntime::kPodman, run).argv;
  for (const char* word :
       {"--workdir=/muster/work/src", "--device=nvidia.com/gpu=0", "--device=nvidia.com/gpu=3",
        "--cpuset-cpus=2,5", "--memory=1048576b", "--memory-swap=1048576b"}) {
    EXPECT_THAT(argv, Contains(word));
    EXPECT_LT(std::find(argv.begin(), argv.end(), word),
              std::find(argv.begin(), argv.end(), run.image));
  }
}

TEST(ApptainerCommand, PassesVariablesByItsOwnEnvironment) {
  ContainerRun run = WantedRun();
  run.image = "/images/x.sif";
  run.gpus = {1};
  const ContainerCommand command = Make(ContainerRuntime::kApptainer, run);
  EXPECT_THAT(command.argv,
              ElementsAre("exec", "--cleanenv", "--no-home", "--bind=/d/slot-0.sock:/d/slot-0.sock",
                          "--bind=/c/step-9:/c/step-9:ro", "--nv", "--pwd=/", "--ulimit=nofile=64",
                          "/images/x.sif", "python", "--privileged", "a b"));
  EXPECT_THAT(command.environment,
              ElementsAre("APPTAINERENV_MUSTER_RANK_DIR=/r", "APPTAINERENV_KEY=secret =x",
                          "APPTAINERENV_LINES=a\nb"));
  EXPECT_EQ(command.env_file, "");
}

TEST(ContainerCommand, APathThatWouldBeTakenForTwoIsRefused) {
  for (const char* path : {"/a:b", "/a,b"}) {
    ContainerRun run = WantedRun();
    run.mounts = {{path, path}};
    for (const ContainerRuntime runtime :
         {ContainerRuntime::kPodman, ContainerRuntime::kApptainer}) {
      EXPECT_THAT(MakeContainerCommand(runtime, run),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(path)));
    }
  }
}

TEST(ContainerRuntimes, PodmanRunsReferencesAndApptainerFilesToo) {
  ContainerRuntimes none;
  EXPECT_FALSE(none.Runs("a"));
  EXPECT_THAT(none.Names(), ElementsAre());
  ContainerRuntimes both{.podman = "/bin/podman", .apptainer = "/bin/apptainer"};
  EXPECT_THAT(both.Names(), ElementsAre("podman", "apptainer"));
  EXPECT_EQ(both.For("a"), ContainerRuntime::kPodman);
  EXPECT_EQ(both.For("/a.sif"), ContainerRuntime::kApptainer);
  both.apptainer.clear();
  EXPECT_TRUE(both.Runs("a"));
  EXPECT_FALSE(both.Runs("/a.sif"));
  ContainerRuntimes apptainer{.podman = "", .apptainer = "/bin/apptainer"};
  EXPECT_EQ(apptainer.For("a"), ContainerRuntime::kApptainer);
}

TEST(ContainerName, IsOfTheRankAndTheAgent) {
  EXPECT_EQ(ContainerName({.job_id = 42, .attempt = 3, .generation = 1, .rank = 7},
                          "some-very-long-worker-name-0123456789abcdef"),
            "muster-42-3-7-0123456789abcdef");
}

TEST(ErrorMessageOf, AreTheRuntimesOwn) {
  EXPECT_EQ(ErrorMessageOf(ContainerRuntime::kPodman, ""), "");
  EXPECT_EQ(ErrorMessageOf(ContainerRuntime::kPodman, "level=warning\nError: no such host\n\n"),
            "no such host");
  EXPECT_EQ(ErrorMessageOf(ContainerRuntime::kPodman, "a\nb\n"), "b");
  EXPECT_EQ(ErrorMessageOf(ContainerRuntime::kApptainer, "INFO: x\nFATAL:   no image\n"),
            "no image");
}

TEST(RuntimeFailure, NeedsBothTheCodeAndTheWords) {
  EXPECT_TRUE(IsRuntimeFailure(ContainerRuntime::kPodman, 125, "Error: x\n"));
  EXPECT_FALSE(IsRuntimeFailure(ContainerRuntime::kPodman, 1, "Error: x\n"));
  EXPECT_FALSE(IsRuntimeFailure(ContainerRuntime::kPodman, 125, "Error: x\nours\n"));
  EXPECT_TRUE(IsRuntimeFailure(ContainerRuntime::kApptainer, 255, "FATAL:   x\n"));
  EXPECT_FALSE(IsRuntimeFailure(ContainerRuntime::kApptainer, 255, ""));
}

}  // namespace
}  // namespace muster::worker
