#include "common/rpc/token_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

std::string Write(const testing::TempDir& dir, const std::string& text, mode_t mode) {
  const std::string path = dir / "token";
  std::ofstream(path) << text;
  EXPECT_EQ(::chmod(path.c_str(), mode), 0);
  return path;
}

TEST(ReadTokenFile, ReadsOneLine) {
  const testing::TempDir dir;
  ASSERT_OK_AND_ASSIGN(const std::string token, ReadTokenFile(Write(dir, "s3cret\n", 0600)));
  EXPECT_EQ(token, "s3cret");
}

TEST(ReadTokenFile, NamesAFileThatIsNotThere) {
  EXPECT_THAT(ReadTokenFile("/nonexistent/token"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nonexistent/token")));
}

TEST(ReadTokenFile, RefusesAFileThatOthersMayUseAndTellsTheWayOut) {
  const testing::TempDir dir;
  for (const mode_t mode : {0640, 0604, 0620, 0602}) {
    EXPECT_THAT(ReadTokenFile(Write(dir, "s3cret", mode)),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("chmod 600")));
  }
}

TEST(ReadTokenFile, RefusesTextThatIsNoToken) {
  const testing::TempDir dir;
  EXPECT_THAT(ReadTokenFile(Write(dir, "\n", 0600)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("empty")));
  EXPECT_THAT(ReadTokenFile(Write(dir, "two words", 0600)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ReadTokenFile(Write(dir, std::string(257, 'x'), 0600)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("256")));
  EXPECT_THAT(ReadTokenFile(dir.path()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("plain file")));
}

}  // namespace
}  // namespace muster
