#include "common/fs/remove_tree.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/unique_fd.h"
#include "common/fs/file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::HasSubstr;

namespace files = std::filesystem;

constexpr uid_t kNobody = 65534;

class RemoveTreeTest : public ::testing::Test {
 protected:
  void Write(const std::string& path) { std::ofstream(path) << "x"; }
  // `depth` folders, each in the one before, and a file in the last.
  void MakeDeep(const std::string& path, int depth) {
    ASSERT_EQ(::mkdir(path.c_str(), 0755), 0);
    UniqueFd at(::open(path.c_str(), O_RDONLY | O_DIRECTORY));
    for (int i = 0; i < depth; ++i) {
      ASSERT_EQ(::mkdirat(at.get(), "d", 0755), 0);
      at = UniqueFd(::openat(at.get(), "d", O_RDONLY | O_DIRECTORY));
    }
    UniqueFd(::openat(at.get(), "f", O_WRONLY | O_CREAT, 0600));
  }
  // What a process without root's rights makes of it.
  static int AsNobody(const std::function<int()>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(99);
      ::_exit(work());
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  TempDir dir_;
};

TEST_F(RemoveTreeTest, NoDepthIsTooDeep) {
  for (const int depth : {0, 1, 30, 31, 32, 33, 70, 1000}) {
    MakeDeep(dir_ / "tree", depth);
    EXPECT_OK(RemoveTreeByDescriptors(dir_ / "tree")) << depth;
    EXPECT_FALSE(files::exists(dir_ / "tree")) << depth;
  }
}

TEST_F(RemoveTreeTest, AFewDescriptorsAreEnough) {
  MakeDeep(dir_ / "tree", 200);
  for (int i = 0; i < 100; ++i) MakeDeep(dir_ / absl::StrCat("tree/wide-", i), 2);
  const pid_t child = ::fork();
  if (child == 0) {
    const struct rlimit few = {48, 48};
    ::setrlimit(RLIMIT_NOFILE, &few);
    ::_exit(RemoveTreeByDescriptors(dir_ / "tree").ok() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(files::exists(dir_ / "tree"));
}

TEST_F(RemoveTreeTest, WhatMayNotBeWrittenIsMadeSo) {
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0777), 0);
  const std::string tree = dir_ / "tree";
  const int outcome = AsNobody([&] {
    std::error_code error;
    // Read-only, not searchable, and neither; also where folders are moved up.
    std::string deep = tree;
    ::mkdir(deep.c_str(), 0755);
    for (const mode_t mode : {0500, 0600, 0000}) {
      const std::string folder = absl::StrCat(tree, "/mode-", mode);
      files::create_directories(folder + "/below/more", error);
      Write(folder + "/file");
      Write(folder + "/below/file");
      ::chmod((folder + "/below/more").c_str(), mode);
      ::chmod((folder + "/below").c_str(), mode);
      ::chmod(folder.c_str(), mode);
    }
    std::vector<std::string> nested;
    for (int i = 0; i < 70; ++i) {
      deep += "/d";
      ::mkdir(deep.c_str(), 0755);
      nested.push_back(deep);
    }
    Write(deep + "/file");
    for (auto folder = nested.rbegin(); folder != nested.rend(); ++folder) {
      ::chmod(folder->c_str(), 0500);
    }
    ::chmod(tree.c_str(), 0500);
    const absl::Status removed = RemoveTreeByDescriptors(tree);
    if (!removed.ok()) std::cerr << removed << std::endl;
    return removed.ok() ? 0 : 1;
  });
  EXPECT_EQ(outcome, 0);
  EXPECT_FALSE(files::exists(tree));
}

TEST_F(RemoveTreeTest, WhatCannotGoIsNamedAndTheRestGoes) {
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0777), 0);
  const std::string tree = dir_ / "tree";
  files::create_directories(tree + "/a/b");
  files::create_directories(tree + "/foreign");
  Write(tree + "/foreign/stays");
  Write(tree + "/a/b/goes");
  for (const char* own : {"", "/a", "/a/b"}) {
    ASSERT_EQ(::chown((tree + own).c_str(), kNobody, kNobody), 0);
  }
  const int outcome = AsNobody([&] {
    const absl::Status removed = RemoveTreeByDescriptors(tree);
    return absl::IsPermissionDenied(removed) &&
                   absl::StrContains(removed.message(), tree + "/foreign/stays")
               ? 0
               : 1;
  });
  EXPECT_EQ(outcome, 0);
  EXPECT_FALSE(files::exists(tree + "/a"));
  EXPECT_TRUE(files::exists(tree + "/foreign/stays"));
}

TEST_F(RemoveTreeTest, LinksAreRemovedNotFollowed) {
  files::create_directories(dir_ / "kept");
  Write(dir_ / "kept/file");
  files::create_directories(dir_ / "tree/deep");
  files::create_directory_symlink(dir_ / "kept", dir_ / "tree/link");
  files::create_directory_symlink(dir_ / "kept", dir_ / "tree/deep/link");
  files::create_directory_symlink(dir_ / "kept", dir_ / "itself");
  EXPECT_OK(RemoveTreeByDescriptors(dir_ / "tree"));
  EXPECT_OK(RemoveTreeByDescriptors(dir_ / "itself"));
  EXPECT_FALSE(files::exists(dir_ / "itself"));
  EXPECT_TRUE(files::exists(dir_ / "kept/file"));
}

TEST_F(RemoveTreeTest, MountsAreNotCrossed) {
  files::create_directories(dir_ / "kept");
  Write(dir_ / "kept/file");
  files::create_directories(dir_ / "tree/a/mounted");
  // A bind mount is of the same device: only the kernel tells.
  if (::mount((dir_ / "kept").c_str(), (dir_ / "tree/a/mounted").c_str(), nullptr, MS_BIND,
              nullptr) != 0) {
    GTEST_SKIP() << "nothing can be mounted here";
  }
  const absl::Status removed = RemoveTreeByDescriptors(dir_ / "tree");
  EXPECT_TRUE(files::exists(dir_ / "kept/file"));
  ASSERT_EQ(::umount2((dir_ / "tree/a/mounted").c_str(), MNT_DETACH), 0);
  EXPECT_FALSE(removed.ok());
  EXPECT_THAT(std::string(removed.message()), HasSubstr("mounted"));
  EXPECT_OK(RemoveTreeByDescriptors(dir_ / "tree"));
}

TEST_F(RemoveTreeTest, NothingOutsideIsTouchedWhileAProcessRenamesUnderIt) {
  files::create_directories(dir_ / "kept/inside");
  Write(dir_ / "kept/inside/file");
  std::atomic<bool> stop = false;
  const std::string tree = dir_ / "tree";
  const std::string link = dir_ / "link";
  files::create_directory_symlink(dir_ / "kept", link);
  // Swaps a folder for a link to what must stay, and back, as fast as it can.
  std::thread adversary([&] {
    while (!stop) {
      ::renameat2(AT_FDCWD, (tree + "/a").c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
      ::renameat2(AT_FDCWD, (tree + "/a/b").c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
      ::mkdir((tree + "/a").c_str(), 0755);
      ::mkdir((tree + "/a/b").c_str(), 0755);
      ::rename((tree + "/a/b").c_str(), (tree + "/c").c_str());
    }
  });
  for (int i = 0; i < 100; ++i) {
    std::error_code ignored;
    files::create_directories(tree + "/a/b/c/d", ignored);
    files::create_directories(tree + "/c/d/e", ignored);
    RemoveTreeByDescriptors(tree).IgnoreError();
    ASSERT_TRUE(files::exists(dir_ / "kept/inside/file")) << i;
  }
  stop = true;
  adversary.join();
  EXPECT_OK(RemoveTreeByDescriptors(tree));
  EXPECT_TRUE(files::exists(dir_ / "kept/inside/file"));
}

TEST_F(RemoveTreeTest, AFolderThatOthersKeepFillingIsGivenUp) {
  const std::string tree = dir_ / "tree";
  files::create_directories(tree);
  std::atomic<bool> stop = false;
  std::thread filler([&] {
    for (uint64_t i = 0; !stop; ++i) Write(absl::StrCat(tree, "/", i));
  });
  // However it ends, it ends.
  for (int i = 0; i < 20; ++i) {
    RemoveTreeByDescriptors(tree).IgnoreError();
    ::mkdir(tree.c_str(), 0755);
  }
  stop = true;
  filler.join();
  EXPECT_OK(RemoveTreeByDescriptors(tree));
}

TEST_F(RemoveTreeTest, WhatIsNotThereIsGoneAndWhatHasNoNameIsRefused) {
  EXPECT_OK(RemoveTreeByDescriptors(dir_ / "none"));
  EXPECT_OK(RemoveTreeByDescriptors(dir_ / "none/below"));
  for (const char* path : {"", "/", ".", "a/.."}) {
    EXPECT_THAT(RemoveTreeByDescriptors(path), StatusIs(StatusCode::kInvalidArgument)) << path;
  }
  files::create_directories(dir_ / "tree");
  EXPECT_OK(RemoveTreeByDescriptors(dir_ / "tree/"));
  EXPECT_FALSE(files::exists(dir_ / "tree"));
}

TEST_F(RemoveTreeTest, AFolderIsMadeWritableButNotThroughALink) {
  files::create_directories(dir_ / "kept");
  ASSERT_EQ(::chmod((dir_ / "kept").c_str(), 0500), 0);
  files::create_directory_symlink(dir_ / "kept", dir_ / "link");
  EXPECT_FALSE(MakeFolderWritable(dir_ / "link").ok());
  struct stat info = {};
  ASSERT_EQ(::stat((dir_ / "kept").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0500u);
  EXPECT_OK(MakeFolderWritable(dir_ / "kept"));
  ASSERT_EQ(::stat((dir_ / "kept").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

}  // namespace
}  // namespace muster
