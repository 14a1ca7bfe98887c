// `muster local` as processes: the real command and supervisor, with daemons that only pretend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/local/daemon_process.h"
#include "cli/local/log_bound.h"
#include "cli/output/proto_json.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"

namespace muster::cli {
namespace {

using ::muster::testing::IdentifyProcess;
using ::muster::testing::IsAlive;
using ::muster::testing::ProcessesMentioning;
using ::muster::testing::ProcessId;
using ::muster::testing::ProcessResult;
using ::muster::testing::WaitUntil;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kPatience = absl::Minutes(1);

class LocalTest : public ::testing::Test {
 protected:
  LocalTest() {
    std::filesystem::create_directories(dir_ / "bin");
    for (const char* name : {"musterd", "muster-worker"}) {
      std::filesystem::create_symlink(FAKE_DAEMON, dir_ / "bin/" + name);
    }
  }
  ~LocalTest() override {
    Muster({"local", "down"});
    EXPECT_TRUE(WaitUntil(kPatience, [&] { return ProcessesMentioning(dir_.path()).empty(); }));
  }

  ProcessResult Muster(const std::vector<std::string>& args) {
    std::vector<std::string> argv = {MUSTER_PROGRAM};
    argv.insert(argv.end(), args.begin(), args.end());
    return muster::testing::RunProcess(argv,
                                       {{"XDG_CONFIG_HOME", dir_ / "config"},
                                        {"MUSTER_LOCAL_DIR", local()},
                                        {"MUSTER_BIN_DIR", dir_ / "bin"},
                                        {"MUSTER_ADDR", ""},
                                        {"MUSTER_TOKEN", ""},
                                        {"MUSTER_TOKEN_FILE", ""}},
                                       kPatience);
  }
  ProcessResult Up(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"local", "up", "--any-port", "--restart-delay", "10ms"});
    return Muster(more);
  }
  Json Status() {
    return Json::parse(Muster({"local", "status", "-o", "json"}).out, nullptr, false);
  }
  Json Daemon(const std::string& name) {
    const Json status = Status();
    for (const Json& daemon : status["daemons"]) {
      if (daemon["name"] == name) return daemon;
    }
    return nullptr;
  }
  std::string local() const { return dir_ / "local"; }
  static ProcessId Pid(const Json& json) { return IdentifyProcess(json.get<pid_t>()); }

  muster::testing::TempDir dir_;
};

TEST_F(LocalTest, UpStartsAllAndTellsWhereAndDownLeavesNothing) {
  const ProcessResult up = Up({"--workers", "3"});
  ASSERT_EQ(up.exit_code, 0) << up.out << up.err;
  const Json status = Status();
  EXPECT_EQ(status["running"], true);
  EXPECT_EQ(status["dir"], local());
  ASSERT_EQ(status["daemons"].size(), 4u);
  const std::vector<std::string> names = {"musterd", "worker-1", "worker-2", "worker-3"};
  for (size_t i = 0; i < names.size(); ++i) {
    const Json& daemon = status["daemons"][i];
    EXPECT_EQ(daemon["name"], names[i]);
    EXPECT_EQ(daemon["state"], "running");
    EXPECT_EQ(daemon["restarts"], 0);
    EXPECT_TRUE(IsAlive(Pid(daemon["pid"])));
    EXPECT_THAT(daemon["metrics_url"].get<std::string>(),
                AllOf(HasSubstr("http://127.0.0.1:"), HasSubstr("/metrics")));
  }
  // Later commands find it, without the environment.
  EXPECT_EQ(Muster({"nodes", "-q"}).out, "worker-1\nworker-2\nworker-3\n");

  EXPECT_EQ(Muster({"local", "down"}).exit_code, 0);
  EXPECT_THAT(ProcessesMentioning(dir_.path()), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(dir_ / "config/muster/context.json"));
  const ProcessResult none = Muster({"local", "status"});
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_THAT(none.out, HasSubstr("no local Muster runs"));
  EXPECT_EQ(Status()["running"], false);
  EXPECT_EQ(Muster({"local", "down"}).exit_code, 0) << "again is no error";
}

TEST_F(LocalTest, UpTwiceSaysSo) {
  ASSERT_EQ(Up({"--workers", "1"}).exit_code, 0);
  const Json before = Status();
  const ProcessResult again = Up({"--workers", "2"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.err, AllOf(HasSubstr("already running"), HasSubstr("it has 1 workers")));
  EXPECT_EQ(Status(), before);
}

TEST_F(LocalTest, WhatDiesComesBackWithItsNameAndPorts) {
  ASSERT_EQ(Up({"--workers", "2"}).exit_code, 0);
  for (const std::string name : {"musterd", "worker-2"}) {
    const Json before = Daemon(name);
    ASSERT_EQ(::kill(before["pid"].get<pid_t>(), SIGKILL), 0);
    Json after;
    EXPECT_TRUE(WaitUntil(kPatience, [&] {
      after = Daemon(name);
      return after["state"] == "running" && after["pid"] != before["pid"];
    })) << after.dump();
    EXPECT_EQ(after["restarts"], 1);
    EXPECT_EQ(after["grpc_address"], before["grpc_address"]);
    EXPECT_EQ(after["metrics_url"], before["metrics_url"]);
  }
  EXPECT_EQ(Daemon("worker-1")["restarts"], 0);
}

TEST_F(LocalTest, AKilledSupervisorTakesItsDaemonsAlongAndUpStartsAnew) {
  ASSERT_EQ(Up({"--workers", "2"}).exit_code, 0);
  const Json before = Status();
  ASSERT_EQ(::kill(before["supervisor_pid"].get<pid_t>(), SIGKILL), 0);
  for (const Json& daemon : before["daemons"]) {
    const ProcessId process = Pid(daemon["pid"]);
    EXPECT_TRUE(WaitUntil(kPatience, [&] { return !IsAlive(process); })) << daemon.dump();
  }
  EXPECT_EQ(Status()["running"], false) << "what its record says is not believed";
  EXPECT_EQ(Up({"--workers", "1"}).exit_code, 0);
  EXPECT_EQ(Status()["daemons"].size(), 2u);
}

TEST_F(LocalTest, MissingProgramsAreNamed) {
  std::filesystem::remove(dir_ / "bin/muster-worker");
  const ProcessResult up = Up();
  EXPECT_EQ(up.exit_code, 6);
  EXPECT_THAT(up.err, AllOf(HasSubstr(dir_ / "bin/muster-worker"), HasSubstr("--bin-dir")));
  EXPECT_FALSE(std::filesystem::exists(local()));
}

TEST_F(LocalTest, APortInUseIsNamed) {
  ASSERT_EQ(Up({"--workers", "1"}).exit_code, 0);
  const std::string taken = Daemon("musterd")["grpc_address"];
  const ProcessResult up = Muster({"local", "up", "--dir", dir_ / "other", "--listen", taken});
  EXPECT_EQ(up.exit_code, 6);
  EXPECT_THAT(up.err, AllOf(HasSubstr(taken), HasSubstr("--any-port")));
  EXPECT_EQ(Muster({"local", "up", "--dir", dir_ / "other", "--listen", "nonsense"}).exit_code, 2);
}

TEST_F(LocalTest, ADaemonThatKeepsEndingFailsUpWithItsLastWordsAndLeavesNothing) {
  for (const std::string name : {"musterd", "worker-1"}) {
    std::filesystem::create_directories(local());
    std::ofstream(absl::StrCat(local(), "/refuse-", name)) << "";
    const ProcessResult up = Up();
    EXPECT_EQ(up.exit_code, 5) << up.err;
    EXPECT_THAT(up.err, AllOf(HasSubstr(name), HasSubstr("refuses to start")));
    EXPECT_THAT(ProcessesMentioning(dir_.path()), IsEmpty());
    std::filesystem::remove(absl::StrCat(local(), "/refuse-", name));
  }
}

TEST_F(LocalTest, ALogIsBoundedWhileItsDaemonRuns) {
  std::filesystem::create_directories(local());
  std::ofstream(local() + "/chatter-worker-1") << "";
  ASSERT_EQ(Up({"--workers", "1"}).exit_code, 0);
  const std::string log = local() + "/logs/worker-1.log";
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return std::filesystem::exists(log + ".1"); }));
  EXPECT_LE(std::filesystem::file_size(log), kMaxLogBytes);
  EXPECT_EQ(std::filesystem::file_size(log + ".1"), kMaxLogBytes);
  EXPECT_EQ(Daemon("worker-1")["restarts"], 0);
}

TEST_F(LocalTest, OfTwoSupervisorsOneRefuses) {
  ASSERT_EQ(Up({"--workers", "1"}).exit_code, 0);
  const ProcessResult second = Muster({"local", "supervise", "--any-port"});
  EXPECT_EQ(second.exit_code, 6);
  EXPECT_THAT(second.err, HasSubstr("supervisor.lock"));
  EXPECT_EQ(Daemon("musterd")["state"], "running");
}

TEST(Lock, HasNoHolderWithoutAFileOrAProcess) {
  muster::testing::TempDir dir;
  EXPECT_EQ(LockHolder(dir / "lock"), std::nullopt);
  EXPECT_THAT(TakeLock(dir / "none/lock"),
              muster::testing::StatusIs(absl::StatusCode::kUnavailable));
  { ASSERT_OK_AND_ASSIGN(const UniqueFd lock, TakeLock(dir / "lock")); }
  EXPECT_EQ(LockHolder(dir / "lock"), std::nullopt);
}

}  // namespace
}  // namespace muster::cli
