#include "cli/session/context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "tests/cli/session/context_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::cli {
namespace {

using muster::testing::StatusIs;
using ::testing::HasSubstr;

using ContextTest = ContextFixture;

TEST_F(ContextTest, WithoutAnythingItIsTheDefaultAddressAndNoToken) {
  ASSERT_OK_AND_ASSIGN(const Endpoint endpoint, Find());
  EXPECT_EQ(endpoint.address, "127.0.0.1:7070");
  EXPECT_EQ(endpoint.token, "");
}

TEST_F(ContextTest, TheSavedContextIsFoundAndForgotten) {
  FileSystem& fs = PosixFileSystem();
  ASSERT_OK(
      SaveContext(host_, fs, {.address = "127.0.0.1:9", .token_file = TokenFile("token", "abc")}));
  ASSERT_OK_AND_ASSIGN(const Endpoint endpoint, Find());
  EXPECT_EQ(endpoint.address, "127.0.0.1:9");
  EXPECT_EQ(endpoint.token, "abc");
  ASSERT_OK(ForgetContext(host_, fs, "127.0.0.1:8"));
  EXPECT_OK(LoadContext(host_, fs));
  ASSERT_OK(ForgetContext(host_, fs, "127.0.0.1:9"));
  EXPECT_THAT(LoadContext(host_, fs), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_OK(ForgetContext(host_, fs, "127.0.0.1:9"));
}

TEST_F(ContextTest, FlagsWinOverTheEnvironmentAndThatOverTheContext) {
  ASSERT_OK(SaveContext(host_, PosixFileSystem(),
                        {.address = "c:1", .token_file = TokenFile("context", "context")}));
  env_["MUSTER_ADDR"] = "e:1";
  env_["MUSTER_TOKEN_FILE"] = TokenFile("env-file", "env-file");
  ASSERT_OK_AND_ASSIGN(Endpoint endpoint, Find());
  EXPECT_EQ(endpoint.address, "e:1");
  EXPECT_EQ(endpoint.token, "env-file");
  env_["MUSTER_TOKEN"] = "env";
  ASSERT_OK_AND_ASSIGN(endpoint, Find());
  EXPECT_EQ(endpoint.token, "env");
  ASSERT_OK_AND_ASSIGN(endpoint, Find({.address = "f:1", .token_file = TokenFile("flag", "flag")}));
  EXPECT_EQ(endpoint.address, "f:1");
  EXPECT_EQ(endpoint.token, "flag");
}

TEST_F(ContextTest, TheContextsTokenIsNotSentToAnotherAddress) {
  ASSERT_OK(SaveContext(host_, PosixFileSystem(),
                        {.address = "127.0.0.1:1", .token_file = TokenFile("t", "t")}));
  ASSERT_OK_AND_ASSIGN(Endpoint endpoint, Find({.address = "elsewhere:1"}));
  EXPECT_EQ(endpoint.token, "");
  ASSERT_OK_AND_ASSIGN(endpoint, Find({.address = "localhost:1"}));
  EXPECT_EQ(endpoint.token, "t");
}

TEST_F(ContextTest, AnAddressMayBeWrittenAsGrpcDoes) {
  ASSERT_OK_AND_ASSIGN(const Endpoint endpoint, Find({.address = "dns:///a.example:1"}));
  EXPECT_EQ(endpoint.address, "a.example:1");
  EXPECT_THAT(Find({.address = "dns:///"}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ContextTest, BadInputIsNamed) {
  EXPECT_THAT(Find({.address = "no-port"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("HOST:PORT")));
  EXPECT_THAT(Find({.address = "a:70000"}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Find({.address = "a:1", .token_file = dir_ / "none"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
  env_["MUSTER_TOKEN"] = "two words";
  EXPECT_THAT(Find(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("MUSTER_TOKEN")));
}

TEST_F(ContextTest, ABrokenContextFileIsNamed) {
  ASSERT_OK_AND_ASSIGN(const std::string path, ContextPath(host_));
  ASSERT_OK(PosixFileSystem().MakeDirectories(dir_ / "config/muster"));
  std::ofstream(path) << "{";
  EXPECT_THAT(Find(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(path)));
}

TEST_F(ContextTest, WithoutAHomeThereIsNoPlaceForIt) {
  env_.clear();
  EXPECT_THAT(ContextPath(host_), StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_OK_AND_ASSIGN(const Endpoint endpoint, Find());
  EXPECT_EQ(endpoint.address, kDefaultAddress);
}

}  // namespace
}  // namespace muster::cli
