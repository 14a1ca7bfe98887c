#include "common/upload/pack_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/upload/limits.h"
#include "common/upload/unpack_folder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::HasSubstr;

namespace files = std::filesystem;

void Write(const std::string& path, const std::string& text) {
  files::create_directories(files::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(PackFolder, ComesBackAsItWas) {
  TempDir dir;
  Write(dir / "in/train.py", std::string("print('hi')\0\xff", 13));
  Write(dir / "in/sub/deep/empty", "");
  Write(dir / "in/run.sh", "#!/bin/sh\n");
  files::permissions(dir / "in/run.sh", files::perms::owner_all);
  files::create_symlink("../run.sh", dir / "in/sub/link");
  files::create_directories(dir / "in/void");
  ASSERT_OK_AND_ASSIGN(const PackedFolder packed, PackFolder(dir / "in"));
  EXPECT_EQ(packed.entries, 7u);
  ASSERT_OK(UnpackFolder(packed.archive, dir / "out"));
  EXPECT_EQ(Read(dir / "out/train.py"), Read(dir / "in/train.py"));
  EXPECT_TRUE(files::exists(dir / "out/sub/deep/empty"));
  EXPECT_TRUE(files::is_directory(dir / "out/void"));
  EXPECT_EQ(files::read_symlink(dir / "out/sub/link"), "../run.sh");
  EXPECT_EQ(::access((dir / "out/run.sh").c_str(), X_OK), 0);
  EXPECT_NE(::access((dir / "out/train.py").c_str(), X_OK), 0);
}

TEST(PackFolder, EqualFoldersHaveEqualHashes) {
  TempDir dir;
  for (const char* name : {"a", "b/c", "b.d"}) Write(dir / "one/" + name, name);
  for (const char* name : {"b.d", "b/c", "a"}) Write(dir / "two/" + name, name);
  files::last_write_time(dir / "two/a", files::file_time_type() + std::chrono::hours(1));
  ASSERT_OK_AND_ASSIGN(const PackedFolder one, PackFolder(dir / "one"));
  ASSERT_OK_AND_ASSIGN(const PackedFolder two, PackFolder(dir / "two/"));
  EXPECT_EQ(one.sha256, two.sha256);
  EXPECT_EQ(one.archive, two.archive);
  Write(dir / "two/a", "other");
  ASSERT_OK_AND_ASSIGN(const PackedFolder other, PackFolder(dir / "two"));
  EXPECT_NE(one.sha256, other.sha256);
}

TEST(PackFolder, LeavesOutWhatMusterignoreSays) {
  TempDir dir;
  Write(dir / "in/.musterignore", "*.ckpt\ndata/\n");
  Write(dir / "in/a.ckpt", "x");
  Write(dir / "in/data/large", "x");
  Write(dir / "in/.git/config", "x");
  Write(dir / "in/train.py", "x");
  ASSERT_OK_AND_ASSIGN(const PackedFolder packed, PackFolder(dir / "in"));
  EXPECT_EQ(packed.entries, 2u) << "train.py and .musterignore";
}

TEST(PackFolder, SaysWhatItCannotTake) {
  TempDir dir;
  const auto refused = [&](const std::string& folder, const std::string& why) {
    EXPECT_THAT(PackFolder(folder), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused(dir / "nothing", "No such file");
  Write(dir / "file", "x");
  refused(dir / "file", "no folder");
  files::create_directories(dir / "empty");
  refused(dir / "empty", "nothing in it");
  files::create_directories(dir / "links");
  files::create_symlink("/etc/passwd", dir / "links/l");
  refused(dir / "links", "link l -> /etc/passwd leaves it");
  files::create_directories(dir / "odd");
  ASSERT_EQ(::mkfifo((dir / "odd/pipe").c_str(), 0600), 0);
  refused(dir / "odd", "pipe is neither");
  // A file with a hole: large without its bytes.
  Write(dir / "large/hole", "");
  files::resize_file(dir / "large/hole", kMaxUploadBytes + 1);
  refused(dir / "large", "larger than 64.0 MiB");
}

}  // namespace
}  // namespace muster
