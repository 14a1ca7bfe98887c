#include "common/object_store/cache/any_file_system.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "common/base/deadline.h"
#include "tests/common/object_store/scripted_server.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster {
namespace {

using ::absl::StatusCode;
using ::muster::testing::ScriptedServer;
using ::muster::testing::ServeObject;
using ::muster::testing::ServerRequest;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::HasSubstr;

class AnyFileSystemTest : public ::testing::Test {
 protected:
  void Write(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }

  TempDir dir_;
  const std::string path_ = dir_ / "file";
  AnyFileSystem files_{PosixFileSystem(), {.cache_folder = dir_ / "cache"}};
};

TEST_F(AnyFileSystemTest, LocalFilesNeedNoCache) {
  Write("bytes");
  EXPECT_EQ(*files_.ReadFile(path_, 100), "bytes");
  EXPECT_EQ(*files_.FileSize(path_), 5u);
  files_.WillRead(path_, 0, 5);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "cache"));
}

TEST_F(AnyFileSystemTest, AFileThatIsWrittenAnewHasAnotherVersion) {
  Write("bytes");
  const absl::StatusOr<FileVersion> before = files_.Version(path_);
  ASSERT_OK(before);
  EXPECT_EQ(before->size_bytes, 5u);
  char buffer[5];
  EXPECT_OK(files_.ReadVersion(path_, *before, 0, buffer, sizeof(buffer)));
  // The same size, at another time.
  const timespec times[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  const absl::StatusOr<FileVersion> after = files_.Version(path_);
  ASSERT_OK(after);
  EXPECT_FALSE(*after == *before);
  EXPECT_THAT(files_.ReadVersion(path_, *before, 0, buffer, sizeof(buffer)),
              StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(files_.Version(dir_ / "nothing"), StatusIs(StatusCode::kNotFound));
}

TEST_F(AnyFileSystemTest, WithoutAFolderForItsCacheItReadsFromTheServer) {
  ::testing::internal::CaptureStderr();
  ScriptedServer server([](const ServerRequest& request, ScriptedServer::Answer& answer) {
    ServeObject("bytes", "\"tag\"", request, answer);
  });
  Write("not a folder");
  AnyFileSystem files(PosixFileSystem(), {.cache_folder = path_ + "/cache"});
  char buffer[5];
  const absl::StatusOr<uint64_t> read =
      files.ReadAt(server.Url("/file"), 0, buffer, sizeof(buffer));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("event=data_cache_unusable"));
  ASSERT_OK(read);
  EXPECT_EQ(std::string(buffer, *read), "bytes");
  files.WillRead(server.Url("/file"), 0, 5);  // of no use, and no harm
}

TEST_F(AnyFileSystemTest, EndsThoughWhatIsFetchedAheadStalls) {
  std::atomic<bool> stalls = false;
  ScriptedServer server([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    if (request.header("range") != "bytes=8388608-8388612")
      return ServeObject(std::string((8 << 20) + 5, 'x'), "\"tag\"", request, answer);
    stalls = true;
    answer.Stall();
  });
  AnyFileSystem files(PosixFileSystem(), {.cache_folder = dir_ / "cache"});
  char buffer[5];
  ASSERT_OK(files.ReadAt(server.Url("/file"), 0, buffer, sizeof(buffer)));
  files.WillRead(server.Url("/file"), 8 << 20, 5);
  const Deadline deadline(absl::Minutes(1));
  while (!stalls && !deadline.over()) std::this_thread::yield();
  ASSERT_TRUE(stalls);
  files.Cancel();
  EXPECT_THAT(files.ReadAt(server.Url("/other"), 0, buffer, sizeof(buffer)),
              StatusIs(StatusCode::kCancelled));
  EXPECT_THAT(files.ReadAt(server.Url("/file"), 8 << 20, buffer, sizeof(buffer)),
              StatusIs(StatusCode::kCancelled));
}

}  // namespace
}  // namespace muster
