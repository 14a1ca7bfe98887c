#include "cli/session/saved_contexts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cli/commands/access/secret_prompt.h"
#include "tests/cli/cli_run.h"
#include "tests/cli/session/context_fixture.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::cli {
namespace {

using muster::testing::FaultyFileSystem;
using muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SavedContextsTest : public ContextFixture {
 protected:
  // A token that is called as its file.
  std::string TokenFile(const std::string& name) { return ContextFixture::TokenFile(name, name); }
  void Save(const std::string& current) {
    ContextConfig config{.current = current, .contexts = {}};
    config.contexts["prod"] = {.address = "prod:1", .token_file = TokenFile("of-prod")};
    config.contexts["lab"] = {
        .address = "lab:1", .token_file = TokenFile("of-lab"), .insecure = true};
    ASSERT_OK(SaveContexts(host_, PosixFileSystem(), config));
  }
};

TEST_F(SavedContextsTest, FlagsBeforeTheEnvironmentBeforeTheOneInUseBeforeTheLocalOne) {
  ASSERT_OK(SaveContext(host_, PosixFileSystem(),
                        {.address = "127.0.0.1:9", .token_file = TokenFile("of-local")}));
  EXPECT_EQ(Find()->token, "of-local");
  Save("prod");
  EXPECT_EQ(Find()->token, "of-prod");
  env_["MUSTER_CONTEXT"] = "lab";
  ASSERT_OK_AND_ASSIGN(Endpoint endpoint, Find());
  EXPECT_EQ(endpoint.address, "lab:1");
  EXPECT_TRUE(endpoint.insecure);
  EXPECT_EQ(Find({.context = "local"})->token, "of-local");
  env_["MUSTER_ADDR"] = "elsewhere:1";
  env_["MUSTER_TOKEN"] = "of-env";
  EXPECT_EQ(Find()->address, "elsewhere:1");
  ASSERT_OK_AND_ASSIGN(endpoint, Find({.context = "prod"}));
  EXPECT_EQ(endpoint.address, "prod:1");
  EXPECT_EQ(endpoint.token, "of-prod");
  // Another address gets no token that was not meant for it.
  ASSERT_OK_AND_ASSIGN(endpoint, Find({.context = "prod", .address = "f:1"}));
  EXPECT_EQ(endpoint.token, "");
  EXPECT_THAT(Find({.context = "nowhere"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("nowhere")));
}

TEST_F(SavedContextsTest, WhatIsNotOursIsNamed) {
  Save("prod");
  std::ofstream(dir_ / "config/muster/config.json") << "{\"contexts\": 3}";
  EXPECT_THAT(LoadContexts(host_, PosixFileSystem()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("config.json")));
  EXPECT_THAT(Find(), StatusIs(absl::StatusCode::kInvalidArgument));
  for (const char* bad : {"", "local", "a/b", "..", "a b", ".x"}) {
    EXPECT_THAT(CheckContextName(bad), StatusIs(absl::StatusCode::kInvalidArgument)) << bad;
  }
  EXPECT_OK(CheckContextName("muster.example.org"));
}

TEST_F(SavedContextsTest, AFileOfContextsThatCannotBeReadIsAnErrorAndNotNone) {
  FileSystem& fs = PosixFileSystem();
  for (const char* name : {"config.json", "context.json"}) {
    const std::string path = dir_ / "config/muster/" + name;
    ASSERT_OK(fs.MakeDirectories(path));  // a folder: root reads all files
    EXPECT_THAT(Find(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(path)));
    ASSERT_OK(fs.RemoveTree(path));
  }
  EXPECT_OK(Find());
}

// At each moment in which a login may be killed.
TEST_F(SavedContextsTest, ALoginThatIsCutOffLeavesEachAddressWithItsOwnToken) {
  FileSystem& fs = PosixFileSystem();
  const std::string ca = dir_ / "ca.pem";
  ASSERT_OK(WriteFileAtomically(fs, ca, "certificates"));
  const auto kept = [&] { return LoadContexts(host_, fs)->contexts.at("here"); };
  bool is_whole = false;
  for (int n = 1; !is_whole; ++n) {
    ASSERT_OK(KeepContext(host_, fs, "here", {.address = "a:1", .ca_file = ca, .token = "of-a"}));
    FaultyFileSystem faulty(fs);
    faulty.FailAt(n, absl::UnavailableError("killed"), 1000);
    is_whole = KeepContext(host_, faulty, "here", {.address = "b:1", .token = "of-b"}).ok();
    const std::string token = *fs.ReadFile(kept().token_file, 100);
    EXPECT_EQ(token, kept().address == "a:1" ? "of-a\n" : "of-b\n") << n;
    EXPECT_EQ(kept().ca_file.empty(), kept().address == "b:1") << n;
  }
}

TEST_F(SavedContextsTest, ALoginRemovesWhatTheOneBeforeKeptUnlessAnotherContextNamesIt) {
  FileSystem& fs = PosixFileSystem();
  ASSERT_OK(KeepContext(host_, fs, "here", {.address = "a:1", .token = "first"}));
  ContextConfig config = *LoadContexts(host_, fs);
  const std::string first = config.contexts["here"].token_file;
  ASSERT_OK(KeepContext(host_, fs, "here", {.address = "a:1", .token = "second"}));
  EXPECT_FALSE(*fs.Exists(first));
  config = *LoadContexts(host_, fs);
  const std::string second = config.contexts["here"].token_file;
  config.contexts["there"] = config.contexts["here"];
  ASSERT_OK(SaveContexts(host_, fs, config));
  ASSERT_OK(KeepContext(host_, fs, "here", {.address = "a:1", .token = "third"}));
  EXPECT_TRUE(*fs.Exists(second));
}

TEST_F(SavedContextsTest, NoTokenGoesToAnotherMachineInPlainText) {
  for (const char* safe : {"127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1"}) {
    EXPECT_OK(CheckMaySend({.address = safe, .token = "t"})) << safe;
  }
  for (const char* open :
       {"10.0.0.1:1", "muster.example.org:1", "127.0.0.1.example.org:1", "localhost.example:1"}) {
    EXPECT_THAT(CheckMaySend({.address = open, .token = "t"}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("plain text"), Not(HasSubstr("'t'")))))
        << open;
    EXPECT_OK(CheckMaySend({.address = open, .ca_file = "ca.pem", .token = "t"}));
    EXPECT_OK(CheckMaySend({.address = open, .token = "t", .insecure = true}));
    EXPECT_OK(CheckMaySend({.address = open}));
  }
}

TEST(SetContext, AnotherAddressGetsNothingThatWasGivenForTheOneBefore) {
  testing::CliRun run;
  const std::vector<std::string> set = {"config", "set-context", "lab"};
  const auto with = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), set.begin(), set.end());
    return run(flags);
  };
  ASSERT_EQ(
      with({"--addr", "a:1", "--token-file", "/of-a", "--ca-file", "/ca-of-a", "--insecure"}).code,
      0);
  // The same one changes nothing else.
  EXPECT_EQ(with({"--addr", "a:1"}).err, "");
  EXPECT_THAT(run({"config", "view"}).out, AllOf(HasSubstr("/of-a"), HasSubstr("/ca-of-a")));
  const testing::CliResult moved = with({"--addr", "b:1", "--ca-file", "/ca-of-b"});
  EXPECT_EQ(moved.code, 0);
  EXPECT_THAT(moved.err, AllOf(HasSubstr("--token-file /of-a"), HasSubstr("--insecure"),
                               Not(HasSubstr("--ca-file")), HasSubstr("muster login b:1")));
  EXPECT_THAT(run({"config", "view"}).out,
              AllOf(HasSubstr("b:1"), HasSubstr("/ca-of-b"), HasSubstr("insecure: false"),
                    Not(HasSubstr("of-a"))));
}

TEST_F(SavedContextsTest, ASecretIsTheFirstLine) {
  in_.str("  mst_abc \nmore\n");
  EXPECT_EQ(*ReadSecret(host_, "Token: "), "mst_abc");
  in_.clear();
  in_.str("");
  EXPECT_THAT(ReadSecret(host_, "Token: "), StatusIs(absl::StatusCode::kInvalidArgument));
  in_.clear();
  in_.str(std::string(1 << 20, 'x'));
  EXPECT_THAT(ReadSecret(host_, "Token: "), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(out_.str(), "");
}

}  // namespace
}  // namespace muster::cli
