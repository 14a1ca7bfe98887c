#include "cli/session/saved_contexts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "cli/commands/access/secret_prompt.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::cli {
namespace {

using muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SavedContextsTest : public ::testing::Test {
 protected:
  SavedContextsTest() {
    env_["XDG_CONFIG_HOME"] = dir_ / "config";
    host_.env = [this](const char* name) -> std::optional<std::string> {
      const auto it = env_.find(name);
      return it == env_.end() ? std::nullopt : std::optional<std::string>(it->second);
    };
  }
  std::string TokenFile(const std::string& name) {
    const std::string path = dir_ / name;
    std::ofstream(path) << name;
    ::chmod(path.c_str(), 0600);
    return path;
  }
  void Save(const std::string& current) {
    ContextConfig config{.current = current, .contexts = {}};
    config.contexts["prod"] = {.address = "prod:1", .token_file = TokenFile("of-prod")};
    config.contexts["lab"] = {
        .address = "lab:1", .token_file = TokenFile("of-lab"), .insecure = true};
    ASSERT_OK(SaveContexts(host_, PosixFileSystem(), config));
  }
  absl::StatusOr<Endpoint> Find(const ContextFlags& flags = {}) {
    return FindController(host_, PosixFileSystem(), flags);
  }

  muster::testing::TempDir dir_;
  std::map<std::string, std::string> env_;
  std::istringstream in_;
  std::ostringstream out_;
  Host host_{.in = in_, .out = out_, .err = out_};
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
