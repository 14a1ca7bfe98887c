// The drill of docs/OPERATIONS.md: a controller's disk is lost while jobs run, and its newest
// backup is put back. Real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kPatience = absl::Seconds(60);

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class RestoreDrill : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(Backups());
    ASSERT_NO_FATAL_FAILURE(StartController());
    worker_ = std::make_unique<Subprocess>(
        std::vector<std::string>{
            BinDir() + "/muster-worker", "--controller", Text(endpoints_, "worker_address"),
            "--token-file", Data() + "/token", "--name", "one", "--data-dir", dir_ / "one",
            "--slots", "4", "--http-listen", "127.0.0.1:0", "--allow-commands"},
        environment_, dir_ / "one.log");
  }
  void TearDown() override {
    std::ofstream(dir_ / "stop").flush();
    for (Subprocess* process : {worker_.get(), musterd_.get()}) {
      if (process == nullptr) continue;
      process->Signal(SIGTERM);
      process->Wait(absl::Seconds(30));
    }
    if (!HasFailure()) return;
    for (const char* log : {"musterd.log", "one.log"}) {
      std::cerr << log << ":\n" << ReadAll(dir_ / log) << "\n";
    }
  }

  std::string Data() const { return dir_ / "controller"; }
  std::string Backups() const { return dir_ / "backups"; }
  std::string Address(const char* key) {
    return endpoints_.is_object() ? Text(endpoints_, key) : "127.0.0.1:0";
  }

  // At the same addresses as before.
  void StartController(const std::vector<std::string>& more = {}) {
    std::vector<std::string> argv = {BinDir() + "/musterd",
                                     "--data-dir",
                                     Data(),
                                     "--listen",
                                     Address("grpc_address"),
                                     "--worker-listen",
                                     Address("worker_address"),
                                     "--http-listen",
                                     Address("http_address"),
                                     "--backup-dir",
                                     Backups(),
                                     "--backup-every",
                                     "0s",
                                     "--startup-grace",
                                     "2s"};
    argv.insert(argv.end(), more.begin(), more.end());
    musterd_ = std::make_unique<Subprocess>(argv, environment_, dir_ / "musterd.log");
    Json endpoints;
    ASSERT_TRUE(WaitUntil(kPatience, [&] {
      endpoints = Json::parse(ReadAll(Data() + "/endpoints.json"), nullptr, false);
      return endpoints.is_object() && Number(endpoints, "pid") == musterd_->pid();
    })) << ReadAll(dir_ / "musterd.log");
    endpoints_ = endpoints;
  }
  void LoseTheDisk() {
    musterd_->Signal(SIGKILL);
    ASSERT_TRUE(musterd_->Wait(kPatience));
    std::filesystem::remove_all(Data());
  }
  ProcessResult Restore(const std::string& folder) {
    return RunProcess({BinDir() + "/musterd", "restore", folder, "--data-dir", Data()},
                      environment_, kPatience);
  }

  ProcessResult Cli(std::vector<std::string> words) {
    words.insert(words.begin(), {BinDir() + "/muster", "--addr", Address("grpc_address"),
                                 "--token-file", Data() + "/token"});
    return RunProcess(words, environment_, kPatience);
  }
  Json CliJson(std::vector<std::string> words) {
    words.insert(words.begin(), {"-o", "json"});  // before what stands behind `--`
    const ProcessResult result = Cli(words);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    return Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  }
  std::string MakeBackup() { return Text(CliJson({"admin", "backup"}), "folder"); }
  std::string Held() { return Text(CliJson({"admin", "status"}), "held"); }

  // A job that runs until the file `stop` is there; its id.
  uint64_t Submit(const std::string& name) {
    const std::string script =
        absl::StrCat("echo $$ > ", dir_ / (name + ".tmp"), "; mv ", dir_ / (name + ".tmp"), " ",
                     PidFile(name), "; while [ ! -e ", dir_ / "stop", " ]; do sleep 0.1; done");
    return static_cast<uint64_t>(
        Number(CliJson({"submit", "--name", name, "--", "sh", "-c", script}), "job_id"));
  }
  std::string PidFile(const std::string& name) const { return dir_ / (name + ".pid"); }
  std::string State(uint64_t job) {
    return Text(Member(CliJson({"show", absl::StrCat(job)}), "summary"), "state");
  }
  void WaitForState(uint64_t job, const std::string& state) {
    std::string seen;
    ASSERT_TRUE(WaitUntil(kPatience, [&] { return (seen = State(job)) == state; }))
        << "job " << job << " is " << seen << ", not " << state;
  }
  // Of the job's program; waits until it has said it.
  pid_t PidOf(const std::string& name) {
    int pid = 0;
    EXPECT_TRUE(
        WaitUntil(kPatience, [&] { return absl::SimpleAtoi(ReadAll(PidFile(name)), &pid); }));
    return pid;
  }
  static bool Lives(pid_t pid) { return ::kill(pid, 0) == 0; }

  TempDir dir_;
  Environment environment_ = {{"HOME", dir_.path()}, {"XDG_CONFIG_HOME", dir_ / "config"}};
  std::unique_ptr<Subprocess> musterd_;
  std::unique_ptr<Subprocess> worker_;
  Json endpoints_;
};

TEST_F(RestoreDrill, WhatTheBackupKnowsGoesOnAndWhatItDoesNotIsGivenUpOnlyWhenSaid) {
  const uint64_t known = Submit("known");
  ASSERT_NO_FATAL_FAILURE(WaitForState(known, "RUNNING"));
  const pid_t known_pid = PidOf("known");
  const std::string backup = MakeBackup();
  ASSERT_THAT(backup, HasSubstr(Backups()));
  // The backup does not know these.
  const uint64_t later = Submit("later");
  ASSERT_NO_FATAL_FAILURE(WaitForState(later, "RUNNING"));
  const pid_t later_pid = PidOf("later");

  ASSERT_NO_FATAL_FAILURE(LoseTheDisk());
  const ProcessResult restored = Restore(backup);
  ASSERT_EQ(restored.exit_code, 0) << restored.err;
  EXPECT_THAT(restored.out, HasSubstr("1 jobs of which 1 had not ended"));
  ASSERT_NO_FATAL_FAILURE(StartController());

  // It says what the backup does not know, and does nothing.
  ASSERT_TRUE(WaitUntil(kPatience, [&] {
    return Held().find(absl::StrCat("rank 0 of job ", later)) != std::string::npos;
  })) << Held();
  EXPECT_THAT(Held(), HasSubstr("--accept-lost-history"));
  const uint64_t after = Submit("after");
  EXPECT_GT(after, later + 1000);  // nobody gets the number of a job that was forgotten
  ASSERT_NO_FATAL_FAILURE(WaitForState(after, "PENDING"));
  EXPECT_TRUE(Lives(known_pid));
  EXPECT_TRUE(Lives(later_pid));
  EXPECT_EQ(State(known), "RUNNING");

  // Told to, it goes on: with the very process of the job that it knows.
  musterd_->Signal(SIGTERM);
  ASSERT_TRUE(musterd_->Wait(kPatience));
  EXPECT_TRUE(Lives(later_pid));
  ASSERT_NO_FATAL_FAILURE(StartController({"--accept-lost-history"}));
  ASSERT_NO_FATAL_FAILURE(WaitForState(after, "RUNNING"));
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return !Lives(later_pid); }));
  EXPECT_EQ(Held(), "");
  EXPECT_TRUE(Lives(known_pid));
  EXPECT_EQ(Member(CliJson({"show", absl::StrCat(known)}), "attempts").size(), 1u);
  std::ofstream(dir_ / "stop").flush();
  ASSERT_NO_FATAL_FAILURE(WaitForState(known, "SUCCEEDED"));
  ASSERT_NO_FATAL_FAILURE(WaitForState(after, "SUCCEEDED"));
}

TEST_F(RestoreDrill, WhereNothingHappenedSinceItGoesOnByItself) {
  const uint64_t job = Submit("known");
  ASSERT_NO_FATAL_FAILURE(WaitForState(job, "RUNNING"));
  const pid_t pid = PidOf("known");
  const std::string backup = MakeBackup();
  ASSERT_NO_FATAL_FAILURE(LoseTheDisk());
  ASSERT_EQ(Restore(backup).exit_code, 0);
  ASSERT_NO_FATAL_FAILURE(StartController());
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return Held().empty(); })) << Held();
  EXPECT_TRUE(Lives(pid));
  std::ofstream(dir_ / "stop").flush();
  ASSERT_NO_FATAL_FAILURE(WaitForState(job, "SUCCEEDED"));
  EXPECT_EQ(Member(CliJson({"show", absl::StrCat(job)}), "attempts").size(), 1u);
}

TEST_F(RestoreDrill, ARankThatEndedSinceIsNotWaitedFor) {
  const uint64_t job = Submit("known");
  ASSERT_NO_FATAL_FAILURE(WaitForState(job, "RUNNING"));
  const std::string backup = MakeBackup();
  std::ofstream(dir_ / "stop").flush();
  ASSERT_NO_FATAL_FAILURE(WaitForState(job, "SUCCEEDED"));
  ASSERT_NO_FATAL_FAILURE(LoseTheDisk());
  ASSERT_EQ(Restore(backup).exit_code, 0);
  ASSERT_NO_FATAL_FAILURE(StartController({"--accept-lost-history"}));
  // The end is not known any more: it runs once more.
  ASSERT_NO_FATAL_FAILURE(WaitForState(job, "SUCCEEDED"));
  EXPECT_EQ(Member(CliJson({"show", absl::StrCat(job)}), "attempts").size(), 2u);
}

TEST_F(RestoreDrill, WhatIsNoWholeBackupOrNoEmptyFolderIsRefused) {
  const std::string backup = MakeBackup();
  const ProcessResult running = Restore(backup);
  EXPECT_EQ(running.exit_code, 1);
  EXPECT_THAT(running.err, HasSubstr(Data()));
  musterd_->Signal(SIGTERM);
  ASSERT_TRUE(musterd_->Wait(kPatience));
  EXPECT_THAT(Restore(backup).err, HasSubstr("is not empty"));
  std::filesystem::remove_all(Data());
  EXPECT_THAT(Restore(dir_.path()).err, HasSubstr("is no backup"));
  std::ofstream(backup + "/history.db", std::ios::app) << "x";
  const ProcessResult damaged = Restore(backup);
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_THAT(damaged.err, HasSubstr("history.db: is not as it was backed up"));
  EXPECT_FALSE(std::filesystem::exists(Data() + "/state.db"));
  std::filesystem::remove(backup + "/history.db");
  EXPECT_THAT(Restore(backup).err, HasSubstr("history.db: is missing"));
  EXPECT_FALSE(std::filesystem::exists(Data() + "/restoring"));
}

}  // namespace
}  // namespace muster::testing
