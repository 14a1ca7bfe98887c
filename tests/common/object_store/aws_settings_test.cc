#include "common/object_store/aws_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFile[] =
    "# of the team\n"
    "[default]\n"
    "aws_access_key_id = AKDEFAULT\n"
    "aws_secret_access_key=default/secret==\n"
    "\n"
    "[ other ]\r\n"
    "AWS_ACCESS_KEY_ID = AKOTHER\r\n"
    "aws_secret_access_key = othersecret\r\n"
    "aws_session_token = token\r\n"
    "region = eu-west-3\r\n"
    "s3 =\n"
    "  max_concurrent_requests = 20\n"
    "[region-only]\n"
    "region = us-west-2\n";

absl::StatusOr<AwsSettings> Load(const std::map<std::string, std::string>& environment) {
  return LoadAwsSettings(
      [&](const char* name) {
        const auto found = environment.find(name);
        return found == environment.end() ? std::string() : found->second;
      },
      PosixFileSystem());
}

TEST(AwsSettings, WithoutAnythingRequestsAreAnonymous) {
  const TempDir home;
  ASSERT_OK_AND_ASSIGN(const AwsSettings settings, Load({{"HOME", home.path()}}));
  EXPECT_FALSE(settings.credentials.has_value());
  EXPECT_EQ(settings.region, "us-east-1");
  EXPECT_EQ(settings.endpoint, "");
}

TEST(AwsSettings, TheEnvironmentComesFirst) {
  const TempDir home;
  std::ofstream(home / "c") << kFile;
  ASSERT_OK_AND_ASSIGN(const AwsSettings settings,
                       Load({{"AWS_ACCESS_KEY_ID", "AK"},
                             {"AWS_SECRET_ACCESS_KEY", "SK"},
                             {"AWS_SESSION_TOKEN", "ST"},
                             {"AWS_SHARED_CREDENTIALS_FILE", home / "c"},
                             {"AWS_DEFAULT_REGION", "eu-central-1"},
                             {"AWS_REGION", "eu-north-1"},
                             {"AWS_ENDPOINT_URL", "http://other:1"},
                             {"AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9000/"}}));
  ASSERT_TRUE(settings.credentials.has_value());
  EXPECT_EQ(settings.credentials->access_key_id, "AK");
  EXPECT_EQ(settings.credentials->secret_access_key, "SK");
  EXPECT_EQ(settings.credentials->session_token, "ST");
  EXPECT_EQ(settings.region, "eu-north-1");
  EXPECT_EQ(settings.endpoint, "http://127.0.0.1:9000");
}

TEST(AwsSettings, AProfileOfTheSharedFileIsRead) {
  const TempDir home;
  std::ofstream(home / "c") << kFile;
  ASSERT_OK_AND_ASSIGN(const AwsSettings first,
                       Load({{"AWS_SHARED_CREDENTIALS_FILE", home / "c"}}));
  EXPECT_EQ(first.credentials->access_key_id, "AKDEFAULT");
  EXPECT_EQ(first.credentials->secret_access_key, "default/secret==");
  ASSERT_OK_AND_ASSIGN(const AwsSettings other, Load({{"AWS_SHARED_CREDENTIALS_FILE", home / "c"},
                                                      {"AWS_PROFILE", "other"}}));
  EXPECT_EQ(other.credentials->access_key_id, "AKOTHER");
  EXPECT_EQ(other.credentials->session_token, "token");
  EXPECT_EQ(other.region, "eu-west-3");
  ASSERT_OK_AND_ASSIGN(const AwsSettings region, Load({{"AWS_SHARED_CREDENTIALS_FILE", home / "c"},
                                                       {"AWS_PROFILE", "region-only"}}));
  EXPECT_FALSE(region.credentials.has_value());
  EXPECT_EQ(region.region, "us-west-2");
}

TEST(AwsSettings, TheSharedFileLiesAtHome) {
  const TempDir home;
  std::filesystem::create_directory(home / ".aws");
  std::ofstream(home / ".aws/credentials") << kFile;
  ASSERT_OK_AND_ASSIGN(const AwsSettings settings, Load({{"HOME", home.path()}}));
  EXPECT_EQ(settings.credentials->access_key_id, "AKDEFAULT");
}

TEST(AwsSettings, AProfileThatIsNamedMustBeThere) {
  const TempDir home;
  std::ofstream(home / "c") << kFile;
  EXPECT_THAT(Load({{"AWS_SHARED_CREDENTIALS_FILE", home / "c"}, {"AWS_PROFILE", "no"}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("[no]")));
  EXPECT_THAT(Load({{"AWS_SHARED_CREDENTIALS_FILE", home / "gone"}}),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(AwsSettings, HalfAKeyIsRefusedAndNoSecretIsSaid) {
  EXPECT_THAT(Load({{"AWS_SECRET_ACCESS_KEY", "hunter2"}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("half"), Not(HasSubstr("hunter2")))));
  EXPECT_THAT(Load({{"AWS_ACCESS_KEY_ID", "AK"}, {"AWS_SECRET_ACCESS_KEY", "hun ter2"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, Not(HasSubstr("ter2"))));
  EXPECT_THAT(Load({{"AWS_ACCESS_KEY_ID", "A\r\nX: y"}, {"AWS_SECRET_ACCESS_KEY", "s"}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  const TempDir home;
  std::ofstream(home / "c") << "[default]\nhunter2\n";
  EXPECT_THAT(Load({{"AWS_SHARED_CREDENTIALS_FILE", home / "c"}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("line 2"), Not(HasSubstr("hunter2")))));
}

TEST(AwsSettings, AnEndpointIsAUrlAndARegionAName) {
  EXPECT_THAT(Load({{"AWS_ENDPOINT_URL", "127.0.0.1:9000"}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Load({{"AWS_ENDPOINT_URL", "http://u:hunter2@h"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, Not(HasSubstr("hunter2"))));
  EXPECT_THAT(Load({{"AWS_REGION", "evil.example/"}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace muster::testing
