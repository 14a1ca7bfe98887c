// The built muster-data, as people call it: what it prints, its exit codes, and what is left behind
// when it is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <random>

#include "common/fs/file_lock.h"
#include "nlohmann/json.hpp"
#include "tests/common/object_store/scripted_server.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/worker/data_tool/tool_data.h"

namespace muster::worker {
namespace {

using ::muster::testing::Environment;
using ::muster::testing::ProcessResult;
using ::muster::testing::RunProcess;
using ::muster::testing::ScriptedServer;
using ::muster::testing::ServeObject;
using ::muster::testing::ServerRequest;
using ::muster::testing::Subprocess;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DataToolProgramTest : public ToolDataTest {
 protected:
  Environment Env() const { return {{"MUSTER_INDEX_DIR", dir_ / "index"}}; }
  static std::vector<std::string> Command(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), DATA_TOOL);
    return arguments;
  }
  ProcessResult Run(std::vector<std::string> arguments) const {
    return RunProcess(Command(std::move(arguments)), Env(), absl::Minutes(2));
  }
  nlohmann::json Json(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    const ProcessResult result = Run(std::move(arguments));
    return nlohmann::json::parse(result.out, nullptr, false);
  }
};

TEST_F(DataToolProgramTest, TellsWhatThereIs) {
  const ProcessResult index = Run({"index", MakeTars(30, 6)});
  EXPECT_EQ(index.exit_code, 0) << index.err;
  EXPECT_THAT(index.out, AllOf(HasSubstr("is WebDataset\n"), HasSubstr("train            24"),
                               HasSubstr("validation        6"), HasSubstr("classes 0 to 2"),
                               HasSubstr(dir_ / "index")));
  EXPECT_EQ(Json({"index", dir_ / "tars"})["splits"]["train"]["samples"], 24);
  const ProcessResult stats = Run({"stats", MakeFolder(30), "--threads", "2"});
  EXPECT_EQ(stats.exit_code, 0) << stats.err;
  EXPECT_THAT(stats.out, AllOf(HasSubstr("\n      mean: [0."), HasSubstr("\n      std: [0."),
                               HasSubstr("train:\n  data:\n    images:\n")));
  const ProcessResult show = Run({"show", dir_ / "tars", KeyName(3)});
  EXPECT_EQ(show.exit_code, 0) << show.err;
  EXPECT_THAT(show.out, AllOf(HasSubstr("JPEG, 81 x 65, 3 channels, progressive"),
                              HasSubstr("train-0.tar"), HasSubstr("key      class-0/003")));
  EXPECT_EQ(Run({"cat", dir_ / "tars", KeyName(3)}).out, PictureBytes(3));
  EXPECT_EQ(Run({"cat", dir_ / "tars", "--split", "validation", "0"}).out, PictureBytes(24));
  const ProcessResult bench = Run({"bench", dir_ / "tars", "--seconds", "0.02", "--size", "32",
                                   "--threads", "2", "--needs", "100"});
  EXPECT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_THAT(bench.out,
              AllOf(HasSubstr("decode, crop, resize"), HasSubstr("100 samples a second want ")));
}

TEST_F(DataToolProgramTest, AnIndexMayLieBesideEachShard) {
  const std::string tars = MakeTars(30, 6);
  const ProcessResult index = Run({"index", tars, "--beside"});
  EXPECT_EQ(index.exit_code, 0) << index.err;
  EXPECT_THAT(FileText(tars + "/train-0.idx"), HasSubstr("v1.2 24\njpg 512 "));
  EXPECT_THAT(FileText(tars + "/val-0.idx"), HasSubstr("v1.2 6\njpg 512 "));
  const auto before = Json({"index", tars})["splits"];
  EXPECT_EQ(Json({"index", tars, "--anew"})["splits"], before);
  // One that lies is told, with the way out, and the shard is read.
  PutFile(tars + "/val-0.idx", "v1.2 1\njpg 1024 1 class-0/024.jpg\n");
  const ProcessResult wrong = Run({"index", tars, "--anew"});
  EXPECT_EQ(wrong.exit_code, 0);
  EXPECT_THAT(wrong.out, HasSubstr("validation        6"));
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("val-0.idx line 2"), HasSubstr("--beside")));
  EXPECT_EQ(Run({"index", tars, "--anew", "--beside"}).exit_code, 0);
  EXPECT_THAT(Run({"index", MakeFolder(6), "--beside"}).err, HasSubstr("shards of WebDataset"));
  EXPECT_THAT(Run({"index", "http://127.0.0.1:9/t.tar", "--beside"}).err,
              AllOf(HasSubstr("127.0.0.1:9"), HasSubstr("nothing has answered for 10s")));
}

TEST_F(DataToolProgramTest, ExitCodesTellSoundBrokenAndUsage) {
  const std::string folder = MakeFolder(20);
  EXPECT_EQ(Run({"verify", folder}).exit_code, 0);
  PutFile(absl::StrCat(folder, "/", KeyName(7), ".jpg"), "no picture");
  const ProcessResult broken = Run({"verify", folder, "--threads", "3"});
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_THAT(broken.out, AllOf(HasSubstr(KeyName(7)), HasSubstr("1 broken")));
  EXPECT_EQ(Json({"verify", folder})["listed"][0]["key"], KeyName(7));
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{},
        {"verify"},
        {"look", folder},
        {"show", folder},
        {"verify", folder, "--threads", "0"},
        {"show", "--job", "-"},
        {"split", folder, dir_ / "x", "--validation", "0.6", "--test", "0.6"}}) {
    EXPECT_EQ(Run(wrong).exit_code, 2);
  }
  EXPECT_THAT(Run({"look", folder}).err, HasSubstr("there is no command look"));
  EXPECT_THAT(Run({"cat", folder, "0", "--split", "other"}).err, HasSubstr("other"));
  EXPECT_THAT(Run({"index", folder, "-o", "json"}).out, HasSubstr("{\"class_names\""));
  const ProcessResult missing = Run({"index", dir_ / "nowhere"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("muster-data: "), HasSubstr("nowhere")));
  EXPECT_THAT(Run({"index", absl::StrCat(PARQUET_FILES, "/dictionary_v1_snappy.parquet")}).err,
              HasSubstr("muster data pack"));
  EXPECT_THAT(Run({"--help"}).out, AllOf(HasSubstr("verify"), HasSubstr("pack")));
}

TEST_F(DataToolProgramTest, SplitMakesATreeThatCanBeRead) {
  const ProcessResult split = Run({"split", MakeFolder(30), dir_ / "tree", "--validation", "0.2"});
  EXPECT_EQ(split.exit_code, 0) << split.err;
  EXPECT_THAT(split.out, HasSubstr("validation         6"));
  EXPECT_EQ(Run({"verify", dir_ / "tree"}).exit_code, 0);
}

// Killed at random moments, then left to finish: the bytes of a pack that nobody disturbed.
TEST_F(DataToolProgramTest, APackThatIsKilledAgainAndAgainComesOutTheSame) {
  for (int i = 0; i < 24; ++i) {
    PutFile(absl::StrCat(dir_.path(), "/large/", KeyName(i), ".jpg"),
            testing::EncodeJpeg(testing::MakePhoto(640, 480, 3, static_cast<uint64_t>(i), 60),
                                {.quality = 97}));
  }
  const auto pack = [&](const std::string& out) {
    return Command({"pack", dir_ / "large", dir_ / out, "--shard-mb", "1", "--threads", "2"});
  };
  const ProcessResult whole = RunProcess(pack("whole"), Env(), absl::Minutes(2));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("holds 24 samples"));
  const auto files = FilesBelow(dir_ / "whole");
  ASSERT_GT(files.size(), 6u);

  std::mt19937 random(7);
  int killed = 0;
  for (int round = 0; round < 12; ++round) {
    Subprocess process(pack("out"), Env(), dir_ / "log");
    process.Wait(absl::Milliseconds(std::uniform_int_distribution<int>(1, 120)(random)));
    process.Signal(SIGKILL);
    ASSERT_TRUE(process.Wait(absl::Minutes(1)));
    if (process.exit_code() != 0) ++killed;
    if (!std::filesystem::exists(dir_ / "out")) continue;
    for (const auto& [name, file] : FilesBelow(dir_ / "out")) {
      const auto sound = files.find(name);
      if (sound == files.end()) continue;
      EXPECT_EQ(file, sound->second) << name;
    }
  }
  EXPECT_GT(killed, 0);
  ASSERT_EQ(RunProcess(pack("out"), Env(), absl::Minutes(2)).exit_code, 0);
  EXPECT_EQ(FilesBelow(dir_ / "out"), files);
  const ProcessResult verified = Run({"verify", dir_ / "out"});
  EXPECT_EQ(verified.exit_code, 0) << verified.out;
}

TEST_F(DataToolProgramTest, OneThatWaitsForAnIndexHearsAnInterrupt) {
  const nlohmann::json made = Json({"index", MakeTars(12, 3)});
  const std::string index = made["splits"]["train"]["index"];
  const auto lock = FileLock::Try(index.substr(0, index.size() - 9) + "lock");
  ASSERT_TRUE(lock.ok() && lock->has_value());
  Environment env = Env();
  env["MUSTER_LOG_LEVEL"] = "info";
  Subprocess process(Command({"index", dir_ / "tars", "--anew"}), env, dir_ / "log");
  ASSERT_TRUE(testing::WaitUntil(absl::Minutes(1), [&] {
    return FileText(dir_ / "log").find("index_awaited") != std::string::npos;
  }));
  process.Signal(SIGINT);
  ASSERT_TRUE(process.Wait(absl::Minutes(1)));
  EXPECT_EQ(process.exit_code(), 130) << FileText(dir_ / "log");
}

TEST_F(DataToolProgramTest, AnInterruptedPackSaysSoAndGoesOn) {
  for (int i = 0; i < 40; ++i) {
    PutFile(absl::StrCat(dir_.path(), "/large/", KeyName(i), ".jpg"),
            testing::EncodeJpeg(testing::MakePhoto(700, 500, 3, static_cast<uint64_t>(i), 60),
                                {.quality = 97}));
  }
  const std::vector<std::string> pack =
      Command({"pack", dir_ / "large", dir_ / "out", "--shard-mb", "1", "--threads", "1"});
  Subprocess process(pack, Env(), dir_ / "log");
  // The first shard is there, so it is in the midst of the others.
  ASSERT_TRUE(testing::WaitUntil(
      absl::Minutes(1), [&] { return std::filesystem::exists(dir_ / "out/train-000000.tar"); }));
  process.Signal(SIGINT);
  ASSERT_TRUE(process.Wait(absl::Minutes(1)));
  EXPECT_EQ(process.exit_code(), 130);
  EXPECT_THAT(FileText(dir_ / "log"), HasSubstr("the same command goes on from there"));
  for (const auto& [name, file] : FilesBelow(dir_ / "out"))
    EXPECT_THAT(name, Not(HasSubstr(".part")));
  EXPECT_THAT(Run({"index", dir_ / "out"}).err, HasSubstr("not packed whole"));
  EXPECT_EQ(RunProcess(pack, Env(), absl::Minutes(2)).exit_code, 0);
  EXPECT_EQ(Run({"index", dir_ / "out"}).exit_code, 0);
}

// Nobody waits at a terminal, and a fault would keep the job from this machine.
TEST_F(DataToolProgramTest, APreflightAwaitsAServerThatIsBeingStarted) {
  const auto up_at = std::chrono::steady_clock::now() + std::chrono::seconds(13);
  ScriptedServer server([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    if (std::chrono::steady_clock::now() < up_at) return answer.Reset();
    if (request.target != "/train.csv") return answer.Reply(404, {}, "", request.method != "HEAD");
    ServeObject("a,y\n1,0\n2,1\n3,0\n4,1\n", "\"tag\"", request, answer);
  });
  PutFile(dir_ / "job.json",
          absl::StrCat(R"({"name":"j","train":{"seed":3,"batch_size":1,"steps":2,)",
                       R"("data":{"csv":{"path":")", server.Url("/train.csv"),
                       R"(","target":"y"}}}})"));
  Environment env = Env();
  env["MUSTER_DATA_CACHE"] = dir_ / "blocks";
  env["no_proxy"] = "127.0.0.1";
  const ProcessResult looked =
      RunProcess(Command({"preflight", "-f", dir_ / "job.json"}), env, absl::Minutes(2));
  EXPECT_EQ(looked.exit_code, 0) << looked.err;
  EXPECT_THAT(looked.out, HasSubstr("\"ok\":true"));
}

// A resolved spec as `muster data show -f` pipes it.
TEST_F(DataToolProgramTest, ShowsWhatAStepOfAJobMakesOfASample) {
  MakeTars(30, 6);
  PutFile(dir_ / "job.json",
          absl::StrCat(R"({"name":"j","train":{"seed":3,"batch_size":8,"epochs":2,)",
                       R"("data":{"images":{"path":")", dir_ / "tars",
                       R"(","size":32,"channels":3,"mean":[0.5,0.5,0.5],"std":[0.5,0.5,0.5],)",
                       R"("center_crop":0.875}},)",
                       R"("augment":{"crop_min_area":0.3,"flip":0.5,"mixup":0.2}}})"));
  const ProcessResult shown = Run({"show", "--job", dir_ / "job.json", "--step", "1", "--sample",
                                   "3", "--out", dir_ / "sample.png"});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("stands at            epoch 0, position 11"),
                               HasSubstr("crop "), HasSubstr("mixup, own share 0."),
                               HasSubstr("partner's key"), HasSubstr("train-0.tar")));
  EXPECT_THAT(FileText(dir_ / "sample.png"), HasSubstr("PNG"));
  EXPECT_THAT(Run({"show", "--job", dir_ / "job.json", "--step", "1", "--sample", "8"}).err,
              HasSubstr("want one from 0 to 7"));
  EXPECT_THAT(Run({"show", "--job", dir_ / "job.json", "--step", "100", "--sample", "0"}).err,
              HasSubstr("behind the end of the run"));
}

}  // namespace
}  // namespace muster::worker
