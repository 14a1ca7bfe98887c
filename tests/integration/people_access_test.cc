// People with names, over the real musterd and muster: two users in two projects, a role that is
// too low, tokens that expire and are revoked, and a record that shows when it was tampered with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PeopleAccessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Start();
    for (const std::string project : {"vision", "speech"}) {
      std::ofstream(dir_ / (project + ".yaml"))
          << "name: " << project << "-job\nproject: " << project
          << "\nplacement: {wait_for_capacity: true}\ncommand: {argv: [\"true\"]}\n";
    }
  }
  void TearDown() override { Stop(); }

  void Start() {
    musterd_ = std::make_unique<Subprocess>(
        std::vector<std::string>{BinDir() + "/musterd", "--data-dir", Controller(), "--listen",
                                 "127.0.0.1:0", "--worker-listen", "127.0.0.1:0", "--http-listen",
                                 "127.0.0.1:0"},
        environment_, dir_ / "musterd.log");
    ASSERT_TRUE(WaitUntil(absl::Minutes(1), [&] {
      endpoints_ = Json::parse(Read(Controller() + "/endpoints.json"), nullptr, false);
      return endpoints_.is_object();
    })) << Read(dir_ / "musterd.log");
  }
  void Stop() {
    if (musterd_ == nullptr) return;
    musterd_->Signal(SIGTERM);
    musterd_->Wait(absl::Seconds(30));
    musterd_.reset();
  }
  std::string Controller() const { return dir_ / "controller"; }
  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // As `muster WORDS` with this token file.
  ProcessResult With(const std::string& token_file, std::vector<std::string> words) {
    words.insert(words.begin(), {BinDir() + "/muster", "--addr", Text(endpoints_, "grpc_address"),
                                 "--token-file", token_file});
    return RunProcess(words, environment_, absl::Minutes(1));
  }
  ProcessResult Admin(const std::vector<std::string>& words) {
    return With(Controller() + "/token", words);
  }
  ProcessResult As(const std::string& user, const std::vector<std::string>& words) {
    return With(dir_ / (user + ".token"), words);
  }
  // Adds the user with a role, and keeps their token in USER.token.
  void Add(const std::string& user, const std::string& project, const std::string& role) {
    ASSERT_EQ(Admin({"user", "add", user}).exit_code, 0);
    ASSERT_EQ(Admin({"user", "grant", user, project, role}).exit_code, 0);
    Make(user, "default", "1h");
  }
  void Make(const std::string& user, const std::string& name, const std::string& expires) {
    const ProcessResult made =
        Admin({"token", "create", user, "--name", name, "--expires", expires});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    EXPECT_THAT(made.out, ::testing::StartsWith("mst_"));
    tokens_.push_back(std::string(absl::StripAsciiWhitespace(made.out)));
    const std::string path = dir_ / (user + ".token");
    std::ofstream(path) << made.out;
    ::chmod(path.c_str(), 0600);
  }
  // The job's id.
  std::string Submit(const std::string& user, const std::string& project) {
    const ProcessResult done = As(user, {"submit", "-q", "-f", dir_ / (project + ".yaml")});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return std::string(absl::StripAsciiWhitespace(done.out));
  }

  TempDir dir_;
  Environment environment_ = {{"HOME", dir_.path()},  {"XDG_CONFIG_HOME", dir_ / "config"},
                              {"MUSTER_ADDR", ""},    {"MUSTER_TOKEN", ""},
                              {"MUSTER_CONTEXT", ""}, {"MUSTER_TOKEN_FILE", ""}};
  std::unique_ptr<Subprocess> musterd_;
  Json endpoints_;
  std::vector<std::string> tokens_;  // as they were shown
};

TEST_F(PeopleAccessTest, EachDoesInTheirProjectWhatTheirRoleAllows) {
  Add("anna", "vision", "user");
  Add("bob", "speech", "user");
  Add("carl", "vision", "operator");
  Add("vera", "vision", "viewer");
  const std::string annas = Submit("anna", "vision");
  const std::string bobs = Submit("bob", "speech");
  EXPECT_THAT(As("anna", {"show", annas, "-o", "json"}).out, HasSubstr("\"owner\": \"anna\""));

  // Each sees their own project's.
  EXPECT_EQ(As("anna", {"ls", "-q"}).out, annas + "\n");
  EXPECT_EQ(As("bob", {"ls", "-q"}).out, bobs + "\n");
  EXPECT_THAT(Admin({"ls", "-q"}).out, AllOf(HasSubstr(annas), HasSubstr(bobs)));
  EXPECT_THAT(As("bob", {"events"}).out, Not(HasSubstr("anna")));

  // Where the role is too low nothing changes, and one sentence says what is lacking.
  const ProcessResult denied = As("vera", {"cancel", annas});
  EXPECT_EQ(denied.exit_code, 4);
  EXPECT_THAT(denied.err, AllOf(HasSubstr("needs role user"), HasSubstr("you (vera) have"),
                                HasSubstr("muster user grant vera")));
  // Where there is no role at all, the job is as one that is not there.
  for (const std::string verb : {"cancel", "show"}) {
    const ProcessResult hidden = As("bob", {verb, annas});
    EXPECT_EQ(hidden.exit_code, 3);
    EXPECT_THAT(hidden.err, AllOf(HasSubstr("no such job, or none that you may read"),
                                  Not(HasSubstr("anna")), Not(HasSubstr("vision"))));
  }
  EXPECT_THAT(Admin({"audit", "--denied", "--user", "bob", "-o", "json"}).out,
              AllOf(HasSubstr("JobService/CancelJob"), HasSubstr("in project vision")));
  EXPECT_EQ(As("vera", {"submit", "-f", dir_ / "vision.yaml"}).exit_code, 4);
  const ProcessResult foreign = As("anna", {"submit", "-f", dir_ / "speech.yaml"});
  EXPECT_EQ(foreign.exit_code, 4);
  EXPECT_THAT(foreign.err, HasSubstr("needs role user in project speech; you (anna) have none"));
  EXPECT_EQ(As("carl", {"nodes", "drain", "node-1"}).exit_code, 4);
  EXPECT_EQ(As("anna", {"user", "grant", "anna", "*", "admin"}).exit_code, 4);
  EXPECT_EQ(As("anna", {"token", "create", "carl"}).exit_code, 4);
  EXPECT_EQ(As("anna", {"audit"}).exit_code, 4);
  EXPECT_THAT(Admin({"ls", "-o", "json"}).out, Not(HasSubstr("CANCELLED")));

  // A grant acts at once; an operator controls what others submitted.
  EXPECT_EQ(As("carl", {"cancel", annas}).exit_code, 0);
  ASSERT_EQ(Admin({"user", "grant", "anna", "speech", "operator"}).exit_code, 0);
  EXPECT_EQ(As("anna", {"cancel", bobs}).exit_code, 0);
  ASSERT_EQ(Admin({"user", "revoke", "anna", "speech"}).exit_code, 0);
  EXPECT_EQ(As("anna", {"show", bobs}).exit_code, 3);

  // All of it is on record.
  const ProcessResult rows = Admin({"audit", "-o", "json"});
  EXPECT_THAT(rows.out, AllOf(HasSubstr("JobService/CancelJob"), HasSubstr("\"user\": \"carl\""),
                              HasSubstr("AccessService/GrantRole")));
  const ProcessResult denials = Admin({"audit", "--denied", "--user", "vera", "-o", "json"});
  EXPECT_THAT(denials.out,
              AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr("vera"), Not(HasSubstr("carl"))));
  EXPECT_EQ(Admin({"audit", "verify"}).exit_code, 0);
}

TEST_F(PeopleAccessTest, TokensEndWhenTheyExpireAndAtOnceWhenTheyAreRevoked) {
  Add("anna", "vision", "user");
  const std::string job = Submit("anna", "vision");
  Subprocess follower({BinDir() + "/muster", "--addr", Text(endpoints_, "grpc_address"),
                       "--token-file", dir_ / "anna.token", "events", "-f"},
                      environment_, dir_ / "follower.log");
  ASSERT_TRUE(WaitUntil(absl::Minutes(1), [&] { return !Read(dir_ / "follower.log").empty(); }));
  EXPECT_THAT(As("anna", {"token", "ls"}).out, HasSubstr("default"));
  ASSERT_EQ(Admin({"token", "revoke", "1"}).exit_code, 0);
  const ProcessResult revoked = As("anna", {"ls"});
  EXPECT_EQ(revoked.exit_code, 4);
  EXPECT_THAT(revoked.err, AllOf(HasSubstr("token default of anna was revoked on"),
                                 HasSubstr("muster token create anna")));
  ASSERT_TRUE(follower.Wait(absl::Seconds(30))) << "an open stream outlives its token";
  EXPECT_EQ(follower.exit_code(), 4) << Read(dir_ / "follower.log");

  Make("anna", "short", "1ms");
  const ProcessResult expired = As("anna", {"ls"});
  EXPECT_EQ(expired.exit_code, 4);
  EXPECT_THAT(expired.err, HasSubstr("token short of anna expired on"));
  // One of another cluster says nothing about whose it is.
  std::ofstream(dir_ / "foreign.token") << "mst_" << std::string(64, '0') << "\n";
  ::chmod((dir_ / "foreign.token").c_str(), 0600);
  const ProcessResult foreign = As("foreign", {"ls"});
  EXPECT_EQ(foreign.exit_code, 4);
  EXPECT_THAT(foreign.err, AllOf(HasSubstr("refuses this token"), Not(HasSubstr("anna"))));
  EXPECT_THAT(Admin({"audit", "--denied", "-o", "json"}).out,
              AllOf(HasSubstr("UNAUTHENTICATED"), HasSubstr("expired"), HasSubstr("revoked")));
  ASSERT_EQ(Admin({"user", "rm", "anna"}).exit_code, 0);
  EXPECT_THAT(Admin({"show", job}).err, ::testing::IsEmpty());
  // Another person of that name would own the jobs.
  const ProcessResult again = Admin({"user", "add", "anna"});
  EXPECT_EQ(again.exit_code, 6);
  EXPECT_THAT(again.err, HasSubstr("muster user add anna --reuse-name"));
  EXPECT_EQ(Admin({"user", "add", "anna", "--reuse-name"}).exit_code, 0);
}

TEST_F(PeopleAccessTest, OneCommandLogsInAndContextsNameTheClusters) {
  Add("anna", "vision", "user");
  const std::string address = Text(endpoints_, "grpc_address");
  const auto muster = [&](std::vector<std::string> words) {
    words.insert(words.begin(), BinDir() + "/muster");
    return RunProcess(words, environment_, absl::Minutes(1));
  };
  std::ofstream(dir_ / "bad.token") << "nonsense\n";
  ::chmod((dir_ / "bad.token").c_str(), 0600);
  EXPECT_EQ(muster({"login", address, "--token-file", dir_ / "bad.token"}).exit_code, 4);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "config/muster/config.json"));
  EXPECT_EQ(muster({"login", "muster.example.org:7070"}).exit_code, 2) << "in plain text";

  const ProcessResult in =
      muster({"login", address, "--name", "here", "--token-file", dir_ / "anna.token"});
  ASSERT_EQ(in.exit_code, 0) << in.err;
  EXPECT_THAT(in.out, AllOf(HasSubstr("as anna"), HasSubstr("user in vision")));
  const auto kept_tokens = std::filesystem::directory_iterator(dir_ / "config/muster/tokens");
  const std::string kept = kept_tokens->path().string();
  struct stat info;
  ASSERT_EQ(::stat(kept.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_THAT(muster({"whoami"}).out, AllOf(HasSubstr("anna"), HasSubstr(address)));
  EXPECT_THAT(muster({"config", "get-contexts"}).out, HasSubstr("here"));
  EXPECT_EQ(muster({"config", "current-context"}).out, "here\n");
  EXPECT_THAT(muster({"config", "view"}).out, Not(HasSubstr("mst_")));
  EXPECT_EQ(muster({"--context", "there", "whoami"}).exit_code, 3);
  ASSERT_EQ(muster({"login", address, "--name", "root", "--token-file", Controller() + "/token"})
                .exit_code,
            0);
  EXPECT_THAT(muster({"whoami"}).out, HasSubstr("admin"));
  EXPECT_THAT(muster({"whoami", "--context", "here"}).out, HasSubstr("anna"));
  ASSERT_EQ(muster({"config", "use-context", "here"}).exit_code, 0);
  EXPECT_THAT(muster({"whoami"}).out, HasSubstr("anna"));
  ASSERT_EQ(muster({"config", "delete-context", "here"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(kept));
}

// The hash of a folder stands in every job that runs in it, and lets nobody have the folder.
TEST_F(PeopleAccessTest, AnUploadIsThereForWhoSentItOrReadsAJobThatRunsInIt) {
  Add("anna", "vision", "user");
  Add("carl", "vision", "user");
  Add("bob", "speech", "user");
  const std::string folder = dir_ / "code";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/train.py") << "secret = 1\n";
  const ProcessResult sent =
      As("anna", {"submit", "-q", "-f", dir_ / "vision.yaml", "--upload", folder});
  ASSERT_EQ(sent.exit_code, 0) << sent.err;
  const std::string job(absl::StripAsciiWhitespace(sent.out));
  const Json shown = Json::parse(As("anna", {"show", job, "-o", "json"}).out);
  const std::string hash = Text(Member(Member(shown, "spec"), "command"), "upload");
  ASSERT_EQ(hash.size(), 64u) << shown;
  for (const std::string project : {"vision", "speech"}) {
    std::ofstream(dir_ / (project + "-known.yaml"))
        << "name: known\nproject: " << project
        << "\nplacement: {wait_for_capacity: true}\ncommand: {argv: [\"true\"], upload: " << hash
        << "}\n";
  }
  const std::vector<std::string> steal = {"submit", "-q", "-f", dir_ / "speech-known.yaml"};
  const ProcessResult stolen = As("bob", steal);
  EXPECT_EQ(stolen.exit_code, 3) << stolen.out;
  EXPECT_THAT(stolen.err, AllOf(HasSubstr("is not there"), HasSubstr("--upload DIR")));
  EXPECT_EQ(As("bob", {"ls", "-q"}).out, "");
  EXPECT_EQ(As("carl", {"submit", "-q", "-f", dir_ / "vision-known.yaml"}).exit_code, 0);
  // Who has the folder may send it, as if it were not there, and use it then.
  const ProcessResult own = As("bob", {"submit", "-f", dir_ / "speech.yaml", "--upload", folder});
  EXPECT_EQ(own.exit_code, 0);
  EXPECT_THAT(own.err, HasSubstr("uploading 1 "));
  EXPECT_EQ(As("bob", steal).exit_code, 0);
  // What was sent before a restart is known by the jobs that run in it.
  Stop();
  Start();
  EXPECT_EQ(As("anna", {"submit", "-q", "-f", dir_ / "vision-known.yaml"}).exit_code, 0);
}

// Whoever can write the database can change a row, but not so that nobody sees it.
TEST_F(PeopleAccessTest, ATamperedRowIsNamed) {
  Add("anna", "vision", "user");
  const std::string job = Submit("anna", "vision");
  ASSERT_EQ(As("anna", {"cancel", job}).exit_code, 0);
  const ProcessResult whole = Admin({"audit", "verify", "-o", "json"});
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const std::string head = Text(Json::parse(whole.out), "head");
  Stop();
  const ProcessResult changed =
      RunProcess({"python3", "-c",
                  "import sqlite3, sys\n"
                  "db = sqlite3.connect(sys.argv[1])\n"
                  "where = \" WHERE method = 'JobService/CancelJob'\"\n"
                  "db.execute('DROP TRIGGER audit_is_not_changed')\n"
                  "db.execute(\"UPDATE audit SET user = 'bob'\" + where)\n"
                  "db.commit()\n"
                  "print(db.execute('SELECT seq FROM audit' + where).fetchone()[0])\n",
                  Controller() + "/access.db"},
                 environment_, absl::Minutes(1));
  ASSERT_EQ(changed.exit_code, 0) << changed.err;
  const std::string seq(absl::StripAsciiWhitespace(changed.out));
  ASSERT_FALSE(seq.empty());
  Start();
  const ProcessResult broken = Admin({"audit", "verify"});
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_THAT(broken.err, HasSubstr(absl::StrCat("audit row ", seq, " (")));
  EXPECT_EQ(Admin({"audit", "verify", "--head", head}).exit_code, 1);
  EXPECT_EQ(Admin({"audit", "verify", "--head", "x"}).exit_code, 2);
}

// What was shown once is nowhere: not in the databases, the logs or what people are shown.
TEST_F(PeopleAccessTest, NoTokenLeavesATrace) {
  Add("anna", "vision", "user");
  ASSERT_EQ(As("anna", {"whoami"}).exit_code, 0);
  EXPECT_EQ(As("anna", {"user", "ls"}).exit_code, 4);
  const std::string shown =
      absl::StrCat(Admin({"audit", "-o", "json"}).out, Admin({"token", "ls", "-o", "json"}).out,
                   Admin({"user", "ls", "-o", "json"}).out);
  Stop();
  std::vector<std::string> places = {shown, Read(dir_ / "musterd.log")};
  for (const auto& file : std::filesystem::recursive_directory_iterator(Controller())) {
    const bool is_token_file = file.path().filename() == "token";
    if (file.is_regular_file() && !is_token_file) places.push_back(Read(file.path()));
  }
  EXPECT_GT(places.size(), 4u);
  tokens_.push_back(std::string(absl::StripAsciiWhitespace(Read(Controller() + "/token"))));
  for (const std::string& token : tokens_) {
    ASSERT_GE(token.size(), 64u);
    for (const std::string& place : places) EXPECT_EQ(place.find(token), std::string::npos);
  }
}

}  // namespace
}  // namespace muster::testing
