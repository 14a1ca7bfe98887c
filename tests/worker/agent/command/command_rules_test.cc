#include "worker/agent/command/command_rules.h"

#include <sys/stat.h>

#include <fstream>
#include <map>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::HasSubstr;

v1::StartRanks Start() {
  v1::StartRanks start;
  start.mutable_fence()->set_job_id(7);
  start.mutable_fence()->set_attempt(3);
  start.set_job_name("bert");
  start.set_world_size(4);
  start.set_group_rank(1);
  start.set_group_world_size(2);
  for (uint32_t i = 0; i < 2; ++i) {
    v1::StartRanks::Rank& rank = *start.add_ranks();
    rank.set_rank(2 + i);
    rank.set_local_rank(i);
  }
  return start;
}

TEST(CommandEnvironment, KeepsTorchrunsContract) {
  const v1::StartRanks start = Start();
  const CommandSettings settings = {.argv = {"a"},
                                    .env = {{"HOME", "/job"}, {"OMP_NUM_THREADS", "9"}},
                                    .workdir = "/w",
                                    .upload = "",
                                    .max_restarts = 5};
  const GangFacts facts = {"10.0.0.1", 4711, "/ckpt/step-9.a2.g1", 9};
  const CommandPlace place = {.worker = "w2",
                              .folder = "/ranks/r",
                              .socket = "/ranks/r/s",
                              .checkpoint_directory = "/ckpt",
                              .threads = 2,
                              .visible_gpus = "GPU-a,GPU-b"};
  const std::vector<std::string> environment =
      CommandEnvironment({"HOME=/agent", "LANG=C=x", "RANK=99", "MUSTER_RANK_DIR=/other"}, start,
                         start.ranks(1), settings, facts, place);
  EXPECT_EQ(environment.front(), "MUSTER_RANK_DIR=/ranks/r");
  const std::pair<const char*, const char*> kWanted[] = {
      {"MASTER_ADDR", "10.0.0.1"},
      {"MASTER_PORT", "4711"},
      {"RANK", "3"},
      {"WORLD_SIZE", "4"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"GROUP_RANK", "1"},
      {"GROUP_WORLD_SIZE", "2"},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", "3"},
      {"ROLE_WORLD_SIZE", "4"},
      {"TORCHELASTIC_RESTART_COUNT", "2"},
      {"TORCHELASTIC_MAX_RESTARTS", "5"},
      {"TORCHELASTIC_RUN_ID", "muster-7"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b"},
      {"OMP_NUM_THREADS", "9"},
      {"HOME", "/job"},
      {"LANG", "C=x"},
      {"MUSTER_JOB_ID", "7"},
      {"MUSTER_JOB_NAME", "bert"},
      {"MUSTER_ATTEMPT", "3"},
      {"MUSTER_WORKER", "w2"},
      {"MUSTER_SOCKET", "/ranks/r/s"},
      {"MUSTER_CHECKPOINT_DIR", "/ckpt"},
      {"MUSTER_RESUME", "/ckpt/step-9.a2.g1"},
      {"MUSTER_RESUME_STEP", "9"},
      {"MUSTER_SAVE_SIGNAL", "SIGTERM"},
  };
  for (const auto& [name, value] : kWanted) {
    EXPECT_EQ(FindVariable(environment, name), value) << name;
  }
  std::map<std::string, int> times;
  for (const std::string& entry : environment) ++times[entry.substr(0, entry.find('='))];
  for (const auto& [name, count] : times) EXPECT_EQ(count, 1) << name;
}

TEST(GangFacts, ComeBackAsTheyWereAndNothingElseIsTaken) {
  const GangFacts facts = {"fe80::1", 65535, "/a b/\"c", 12};
  ASSERT_OK_AND_ASSIGN(const GangFacts back, DecodeGangFacts(EncodeGangFacts(facts)));
  EXPECT_EQ(back.master_address, facts.master_address);
  EXPECT_EQ(back.master_port, facts.master_port);
  EXPECT_EQ(back.resume_path, facts.resume_path);
  EXPECT_EQ(back.resume_step, facts.resume_step);
  for (const char* bad :
       {"", "[]", "{}", R"({"master_address":"a","master_port":0,"resume_step":0})",
        R"({"master_address":"a","master_port":65536,"resume_step":0})",
        R"({"master_address":"","master_port":1,"resume_step":0})",
        R"({"master_address":"a","master_port":1,"resume_step":"x"})"}) {
    EXPECT_THAT(DecodeGangFacts(bad), StatusIs(absl::StatusCode::kInternal)) << bad;
  }
}

TEST(FindVariable, TakesTheWholeName) {
  EXPECT_EQ(FindVariable({"AB=1", "A=2"}, "A"), "2");
  EXPECT_EQ(FindVariable({"AB=1"}, "A"), std::nullopt);
  EXPECT_EQ(FindVariable({"A="}, "A"), "");
}

class FindProgramTest : public ::testing::Test {
 protected:
  FindProgramTest() {
    for (const char* folder : {"a", "b"}) ::mkdir((dir_ / folder).c_str(), 0755);
    Put("a/plain", 0644);
    Put("b/plain", 0755);
    Put("a/forbidden", 0644);
    Put("b/tool", 0755);
  }
  void Put(const std::string& name, mode_t mode) {
    std::ofstream(dir_ / name) << "#!/bin/sh\n";
    ::chmod((dir_ / name).c_str(), mode);
  }
  TempDir dir_;
};

TEST_F(FindProgramTest, TakesTheFirstExecutableOfThePath) {
  const std::string path = (dir_ / "none") + ":" + (dir_ / "a") + ":" + (dir_ / "b");
  EXPECT_EQ(FindProgram("plain", path, "/").value(), dir_ / "b/plain");
  EXPECT_EQ(FindProgram("tool", ":/none", dir_ / "b").value(), dir_ / "b/tool");
  EXPECT_TRUE(FindProgram("sh", "", "/").ok());
}

TEST_F(FindProgramTest, ASlashMeansAFile) {
  EXPECT_EQ(FindProgram("./tool", "", dir_ / "b").value(), (dir_ / "b") + "/./tool");
  EXPECT_EQ(FindProgram(dir_ / "b/tool", "", "/").value(), dir_ / "b/tool");
}

TEST_F(FindProgramTest, SaysWhatItLookedFor) {
  const std::string path = dir_ / "a";
  EXPECT_THAT(FindProgram("nothing", path, "/"),
              StatusIs(absl::StatusCode::kNotFound, "no program `nothing` in PATH (" + path + ")"));
  EXPECT_THAT(FindProgram("forbidden", path, "/"),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("a/forbidden")));
  EXPECT_THAT(FindProgram("./no", path, "/x"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/x/./no")));
  EXPECT_THAT(FindProgram(dir_.path(), path, "/"),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("not an executable file")));
}

TEST(PlaceOfProgram, IsTheUploadOnlyForAPathInIt) {
  CommandSettings settings;
  settings.argv = {"./train.sh"};
  EXPECT_EQ(PlaceOfProgram(settings), v1::RankEvent::ON_WORKER);
  settings.upload = "a-sha";
  EXPECT_EQ(PlaceOfProgram(settings), v1::RankEvent::IN_UPLOAD);
  for (const char* name : {"python", "/usr/bin/python", "../../train.sh"}) {
    settings.argv = {name};
    EXPECT_EQ(PlaceOfProgram(settings), v1::RankEvent::ON_WORKER) << name;
  }
}

TEST(Missing, IsWhatTheErrorWasMarkedAs) {
  const absl::Status plain = absl::NotFoundError("x");
  EXPECT_EQ(MissingOf(plain), v1::RankEvent::MISSING_UNSPECIFIED);
  EXPECT_EQ(MissingOf(AsMissing(plain, v1::RankEvent::IN_UPLOAD)), v1::RankEvent::IN_UPLOAD);
}

}  // namespace
}  // namespace muster::worker
