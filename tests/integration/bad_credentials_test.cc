// Machines and people who show what they should not, against a real musterd with TLS: certificates
// that have expired, are of another cluster, revoked or another's, and clocks that are a day off.
// Each hears one clear message, nothing is changed, and what musterd itself has refused is on
// record. Tokens of people are people_access_test's, join tokens join_test's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/tls/certificate_authority.h"
#include "tests/support/tls_musterd.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kDay = 24 * 3600;

class BadCredentialsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NO_FATAL_FAILURE(musterd_.Start()); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
    ::chmod(path.c_str(), 0600);
  }
  // A worker's certificate in Path(folder), as `musterd certify` makes one, but by another time.
  void Sign(const std::string& folder, const std::string& name, absl::Time now,
            absl::Duration lifetime) {
    const std::string tls = musterd_.Folder() + "/tls/";
    const auto authority =
        CertificateAuthority::Load(musterd_.Read(tls + "ca.pem"), musterd_.Read(tls + "ca.key"));
    ASSERT_TRUE(authority.ok()) << authority.status();
    const std::string key = *MakePrivateKey();
    const auto signed_one =
        authority->Sign(*MakeSigningRequest(key), {.name = name}, now, lifetime);
    ASSERT_TRUE(signed_one.ok()) << signed_one.status();
    const std::string files = musterd_.Path(folder);
    Write(files + "/ca.pem", musterd_.Read(tls + "ca.pem"));
    Write(files + "/worker.pem", *signed_one);
    Write(files + "/worker.key", key);
  }
  void Copy(const std::string& from, const std::string& to) {
    Write(musterd_.Path(to), musterd_.Read(musterd_.Path(from)));
  }
  // What the agent says, once it has ended or said `text`. Its clock is so many seconds off.
  std::string SaysOf(const std::string& name, const std::string& certified, const std::string& text,
                     int shift = 0) {
    const auto agent = musterd_.StartAgent(name, certified, {}, ClockOff(shift));
    ended_ = false;
    (void)WaitUntil(absl::Seconds(30), [&] {
      ended_ = ended_ || agent->Wait(absl::ZeroDuration());
      return ended_ || musterd_.Log(name).find(text) != std::string::npos;
    });
    exit_code_ = ended_ ? agent->exit_code() : -1;
    return musterd_.Log(name);
  }
  std::string Nodes() { return musterd_.Cli({"nodes", "-o", "name"}).out; }
  std::string Denials() { return musterd_.Cli({"audit", "--denied", "-o", "json"}).out; }
  // Words in front of a program's, by which its clock is so many seconds off.
  static std::vector<std::string> ClockOff(int seconds) {
    if (seconds == 0) return {};
    return {"env", std::string("LD_PRELOAD=") + SHIFTED_CLOCK,
            absl::StrCat("MUSTER_CLOCK_SHIFT=", seconds)};
  }
  // `muster WORDS`, or another program of ours, with such a clock.
  ProcessResult Shifted(int seconds, const std::vector<std::string>& words) {
    std::vector<std::string> argv = ClockOff(seconds);
    argv.push_back(BinDir() + "/" + words[0]);
    argv.insert(argv.end(), words.begin() + 1, words.end());
    return RunProcess(argv, musterd_.environment(), absl::Minutes(2));
  }
  ProcessResult JoinAs(const std::string& name, int shift = 0) {
    return Shifted(shift,
                   {"muster-worker", "join", musterd_.Address("grpc"), "--name", name, "--data-dir",
                    musterd_.Path(name + ".joined"), "--token-file", musterd_.Path("join")});
  }
  // Each file of musterd's folder with what is in it, but for what a process of it leaves.
  std::map<std::string, std::string> Files() {
    std::map<std::string, std::string> files;
    for (const auto& file : std::filesystem::recursive_directory_iterator(musterd_.Folder())) {
      const bool of_process =
          file.path().filename() == "lock" || file.path().parent_path().filename() == "tls-in-use";
      if (file.is_regular_file() && !of_process) files[file.path()] = musterd_.Read(file.path());
    }
    return files;
  }
  bool BecomesReady(const std::string& name) {
    return WaitUntil(absl::Minutes(1), [&] { return musterd_.IsReady(name); });
  }

  TlsMusterd musterd_;
  bool ended_ = false;
  int exit_code_ = 0;
};

TEST_F(BadCredentialsTest, AMachineThatShowsWhatIsNotItsOwnIsNoWorker) {
  for (const std::string name : {"node-1", "node-2"}) musterd_.Certify(name);
  // Another cluster, with a worker of its own.
  const std::string other = musterd_.Path("other");
  ASSERT_EQ(musterd_.Musterd({"init", "--data-dir", other}).exit_code, 0);
  ASSERT_EQ(
      musterd_
          .Musterd({"certify", "node-5", "--data-dir", other, "--out", musterd_.Path("of-other")})
          .exit_code,
      0);
  for (const std::string file : {"worker.pem", "worker.key"}) {
    Copy("of-other/" + file, "foreign/" + file);
    Copy(file == "worker.pem" ? "node-2/" + file : "node-1/" + file, "swapped/" + file);
  }
  Copy("node-1/ca.pem", "foreign/ca.pem");
  Copy("node-1/ca.pem", "swapped/ca.pem");
  Copy("node-1/ca.pem", "server/ca.pem");
  Copy("controller/tls/server.pem", "server/worker.pem");
  Copy("controller/tls/server.key", "server/worker.key");
  Sign("expired", "node-6", absl::Now() - absl::Hours(72), absl::Hours(24));
  Sign("early", "node-7", absl::Now() + absl::Hours(24), absl::Hours(240));

  constexpr int kTriesAgain = -1;
  struct Row {
    std::string what;
    std::string name;
    std::string certified;
    std::string says;
    int exit_code;
  };
  for (const Row& row :
       std::vector<Row>{{"expired", "node-6", "expired", "the certificate expired at", 1},
                        {"not valid yet", "node-7", "early", "this machine's clock says", 1},
                        {"with another's key", "node-1", "swapped", "is not the private key of", 2},
                        {"of another cluster", "node-5", "foreign",
                         "does not vouch for this certificate", kTriesAgain},
                        {"a worker of another cluster", "node-5", "of-other",
                         "is it that of another cluster?", kTriesAgain},
                        {"musterd's own", "node-8", "server", "does not vouch for this certificate",
                         kTriesAgain},
                        {"another worker's", "node-3", "node-1",
                         "is for node-1, not for worker node-3", kTriesAgain}}) {
    EXPECT_THAT(SaysOf(row.name, row.certified, row.says), HasSubstr(row.says)) << row.what;
    EXPECT_EQ(exit_code_, row.exit_code) << row.what;
    EXPECT_EQ(Nodes(), "") << row.what;
    std::filesystem::remove(musterd_.Path(row.name + ".log"));
    std::filesystem::remove_all(musterd_.Path(row.name + ".data"));
  }
  // Others did not get past the handshake, which does not tell their names.
  EXPECT_THAT(Denials(),
              AllOf(HasSubstr("WorkerService/Control"), HasSubstr("worker node-3"),
                    HasSubstr("is for node-1, not for worker node-3"), Not(HasSubstr("node-5")),
                    HasSubstr("the workers' port took no connection: certificate verify failed")));
}

TEST_F(BadCredentialsTest, AMachineWhoseCertificateWasRevokedIsNoWorker) {
  musterd_.Certify("node-9");
  ASSERT_EQ(musterd_.Cli({"nodes", "revoke", "node-9"}).exit_code, 0);
  constexpr char kRevoked[] = "the certificates of worker node-9 were revoked at";
  EXPECT_THAT(SaysOf("node-9", "node-9", kRevoked), HasSubstr(kRevoked));
  EXPECT_THAT(Denials(), HasSubstr(kRevoked));
  EXPECT_EQ(Nodes(), "");
}

TEST_F(BadCredentialsTest, AClockThatIsADayOffIsNamedAndNothingJoins) {
  const std::vector<std::string> ls = {"muster",
                                       "--addr",
                                       musterd_.Address("grpc"),
                                       "--token-file",
                                       musterd_.Folder() + "/token",
                                       "--ca-file",
                                       musterd_.Folder() + "/tls/ca.pem",
                                       "ls"};
  const ProcessResult behind = Shifted(-kDay, ls);
  EXPECT_EQ(behind.exit_code, 6) << behind.err;
  EXPECT_THAT(behind.err, HasSubstr("this machine's clock says"));
  // The certificates are valid for longer than that.
  EXPECT_EQ(Shifted(kDay, ls).exit_code, 0);

  const std::string token =
      Text(musterd_.CliJson({"join-token", "create", "--for", "1h"}), "token");
  Write(musterd_.Path("join"), token);
  for (const int shift : {-kDay, kDay}) {
    const ProcessResult joined = JoinAs("node-1", shift);
    EXPECT_EQ(joined.exit_code, 1);
    EXPECT_THAT(joined.err, AllOf(HasSubstr("this machine's clock is"), HasSubstr("set the clock"),
                                  HasSubstr(shift < 0 ? "behind" : "ahead of")));
  }
  EXPECT_THAT(musterd_.Cli({"join-token", "ls", "--no-header"}).out, HasSubstr("0/1"));
  EXPECT_FALSE(std::filesystem::exists(musterd_.Path("node-1.joined/worker.yaml")));
}

constexpr char kClockSays[] = "this machine's clock says";

TEST_F(BadCredentialsTest, AnAgentWhoseClockIsADayOffSaysSoWhereItsCertificateIsNotValid) {
  musterd_.Certify("node-1");
  EXPECT_THAT(SaysOf("node-1", "node-1", kClockSays, -kDay),
              AllOf(HasSubstr("the certificate is for the time from"), HasSubstr(kClockSays)));
  EXPECT_EQ(exit_code_, 1);
  Sign("ending", "node-2", absl::Now(), absl::Hours(12));
  EXPECT_THAT(SaysOf("node-2", "ending", kClockSays, kDay),
              AllOf(HasSubstr("the certificate expired at"), HasSubstr(kClockSays)));
  EXPECT_EQ(exit_code_, 1);
  EXPECT_EQ(Nodes(), "");
  EXPECT_EQ(Denials(), "[]\n");
  // One that is valid for longer is a worker's as before.
  const auto agent = musterd_.StartAgent("node-1", "node-1", {}, ClockOff(kDay));
  EXPECT_TRUE(BecomesReady("node-1")) << musterd_.Log("node-1");
  EXPECT_EQ(musterd_.Cli({"submit", "--wait", "--", "true"}).exit_code, 0);
}

TEST_F(BadCredentialsTest, AControllerWhoseClockIsBehindItsCertificateDoesNotStart) {
  musterd_.Stop();
  const std::map<std::string, std::string> before = Files();
  const ProcessResult refused =
      Shifted(-kDay, {"musterd", "--config", musterd_.Folder() + "/musterd.yaml"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("ca.pem: the certificate is for the time from"),
                                 HasSubstr(kClockSays)));
  const std::map<std::string, std::string> after = Files();
  for (const auto& [path, text] : before) {
    const auto now = after.find(path);
    EXPECT_TRUE(now != after.end() && now->second == text) << path;
  }
  for (const auto& [path, text] : after) EXPECT_EQ(before.count(path), 1u) << path;
}

constexpr char kControllersClock[] = "is the controller's clock right?";

TEST_F(BadCredentialsTest, AControllerWhoseClockIsAheadRefusesCertificatesThatAreOverThen) {
  musterd_.Certify("node-1");
  Sign("ending", "node-2", absl::Now(), absl::Hours(12));
  musterd_.Stop();
  ASSERT_NO_FATAL_FAILURE(musterd_.Start({}, ClockOff(kDay)));
  EXPECT_EQ(musterd_.Cli({"ls"}).exit_code, 0);
  const auto agent = musterd_.StartAgent("node-1", "node-1");
  EXPECT_TRUE(BecomesReady("node-1")) << musterd_.Log("node-1");
  EXPECT_THAT(SaysOf("node-2", "ending", kControllersClock),
              AllOf(HasSubstr("the controller hangs up"), HasSubstr(kControllersClock)));
  EXPECT_EQ(Nodes(), "node-1\n");
  // A machine that joins hears of both clocks, and has spent nothing.
  Write(musterd_.Path("join"),
        Text(musterd_.CliJson({"join-token", "create", "--for", "1h"}), "token"));
  const ProcessResult joined = JoinAs("node-3");
  EXPECT_EQ(joined.exit_code, 1);
  EXPECT_THAT(joined.err, AllOf(HasSubstr("this machine's clock is"), HasSubstr("behind")));
  EXPECT_THAT(musterd_.Cli({"join-token", "ls", "--no-header"}).out, HasSubstr("0/1"));
}

TEST_F(BadCredentialsTest, AControllerWhoseClockIsBehindRefusesCertificatesThatAreNewer) {
  musterd_.Stop();
  std::filesystem::remove_all(musterd_.Folder());
  // Its own certificate is two days old.
  ASSERT_EQ(Shifted(-2 * kDay, {"musterd", "init", "--data-dir", musterd_.Folder()}).exit_code, 0);
  musterd_.Certify("node-1");
  ASSERT_NO_FATAL_FAILURE(musterd_.Start({}, ClockOff(-kDay)));
  EXPECT_EQ(musterd_.Cli({"ls"}).exit_code, 0);
  EXPECT_THAT(SaysOf("node-1", "node-1", kControllersClock),
              AllOf(HasSubstr("the controller hangs up"), HasSubstr(kControllersClock)));
  EXPECT_EQ(Nodes(), "");
}

}  // namespace
}  // namespace muster::testing
