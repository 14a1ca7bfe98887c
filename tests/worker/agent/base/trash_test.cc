#include "worker/agent/base/trash.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"

namespace muster::worker {
namespace {

using ::muster::testing::FaultyFileSystem;
using ::muster::testing::TempDir;
using ::muster::testing::WaitUntil;

namespace files = std::filesystem;

constexpr absl::Duration kPatience = absl::Minutes(1);

class TrashTest : public ::testing::Test {
 protected:
  bool AwaitEmpty() {
    return WaitUntil(kPatience, [&] {
      return !files::exists(dir_ / "trash") || files::is_empty(dir_ / "trash");
    });
  }
  std::string MakeFolder(const std::string& name) {
    files::create_directories(dir_ / name + "/below");
    std::ofstream(dir_ / name + "/below/file") << "x";
    return dir_ / name;
  }
  // In which no folder goes: a mount keeps it. False: none can be made here.
  bool Mount(const std::string& at) {
    files::create_directories(dir_ / "kept");
    return ::mount((dir_ / "kept").c_str(), at.c_str(), nullptr, MS_BIND, nullptr) == 0;
  }
  static void Unmount(const std::string& at) {
    ASSERT_EQ(::umount2(at.c_str(), MNT_DETACH), 0) << at;
  }
  size_t Entries() {
    const files::directory_iterator entries(dir_ / "trash");
    return std::distance(begin(entries), end(entries));
  }
  std::string OnlyEntry() {
    for (const auto& entry : files::directory_iterator(dir_ / "trash")) return entry.path();
    return "";
  }

  TempDir dir_;
};

TEST_F(TrashTest, WhatIsThrownIsGoneAtOnceAndRemovedLater) {
  Trash trash(PosixFileSystem(), dir_ / "trash");
  const std::string folder = MakeFolder("folder");
  for (int i = 0; i < 3; ++i) {
    MakeFolder("folder");
    ASSERT_OK(trash.Throw(folder));
    EXPECT_FALSE(files::exists(folder));
  }
  EXPECT_TRUE(AwaitEmpty());
  EXPECT_EQ(trash.stuck(), 0u);
}

TEST_F(TrashTest, WhatIsNotThereNeedNotGo) {
  Trash trash(PosixFileSystem(), dir_ / "trash");
  EXPECT_OK(trash.Throw(dir_ / "none"));
  EXPECT_FALSE(files::exists(dir_ / "trash"));
}

TEST_F(TrashTest, WhatDoesNotGoIsMovedAsideAndTriedAgain) {
  Trash trash(PosixFileSystem(), dir_ / "trash", /*retry_interval=*/absl::Milliseconds(20));
  const std::string folder = MakeFolder("folder");
  files::create_directories(folder + "/mounted");
  if (!Mount(folder + "/mounted")) GTEST_SKIP() << "nothing can be mounted here";
  ASSERT_OK(trash.Throw(folder));
  EXPECT_FALSE(files::exists(folder)) << "its path is free";
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return trash.stuck() == 1; }));
  const std::string aside = OnlyEntry();
  EXPECT_FALSE(files::exists(aside + "/below")) << "what can go is gone";
  Unmount(aside + "/mounted");
  EXPECT_TRUE(AwaitEmpty());
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return trash.stuck() == 0; }));
}

TEST_F(TrashTest, TheNextAgentGoesOnWithWhatStayed) {
  const std::string folder = MakeFolder("folder");
  files::create_directories(folder + "/mounted");
  if (!Mount(folder + "/mounted")) GTEST_SKIP() << "nothing can be mounted here";
  {
    Trash trash(PosixFileSystem(), dir_ / "trash");
    ASSERT_OK(trash.Throw(folder));
    EXPECT_TRUE(WaitUntil(kPatience, [&] { return trash.stuck() == 1; }));
  }
  {
    Trash trash(PosixFileSystem(), dir_ / "trash");
    trash.TakeLeftovers();
    ASSERT_OK(trash.Throw(MakeFolder("folder"))) << "of the same name";
    EXPECT_TRUE(WaitUntil(kPatience, [&] { return trash.stuck() == 1 && Entries() == 1; }))
        << "that one goes";
  }
  Unmount(OnlyEntry() + "/mounted");
  Trash trash(PosixFileSystem(), dir_ / "trash");
  trash.TakeLeftovers();
  EXPECT_TRUE(AwaitEmpty());
}

TEST_F(TrashTest, ARemovalThatTakesLongDoesNotHoldUpTheEnd) {
  // Outlive the removal that is left behind.
  static FaultyFileSystem* const fs = new FaultyFileSystem(PosixFileSystem());
  static std::promise<void>* const began = new std::promise<void>();
  static std::promise<void>* const go_on = new std::promise<void>();
  files::create_directories(dir_ / "trash");
  const std::string folder = MakeFolder("folder");
  fs->CallAt(2, [] {  // after the rename into the trash
    began->set_value();
    go_on->get_future().wait();
  });
  {
    Trash trash(*fs, dir_ / "trash");
    ASSERT_OK(trash.Throw(folder));
    began->get_future().wait();
  }
  EXPECT_NE(OnlyEntry(), "") << "it is left behind";
  go_on->set_value();
  EXPECT_TRUE(AwaitEmpty());
}

TEST_F(TrashTest, WhatCannotBeMovedIsRemovedWhereItIs) {
  Trash trash(PosixFileSystem(), dir_ / "trash");
  std::ofstream(dir_ / "trash").put('x');
  const std::string folder = MakeFolder("folder");
  EXPECT_FALSE(trash.Throw(folder).ok());
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return !files::exists(folder); }));
}

}  // namespace
}  // namespace muster::worker
