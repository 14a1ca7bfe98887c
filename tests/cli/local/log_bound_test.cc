#include "cli/local/log_bound.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cli/local/daemon_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::cli {
namespace {

TEST(LogBound, AShortLogStaysAsItIs) {
  const muster::testing::TempDir dir;
  const std::string log = dir / "w.log";
  EXPECT_OK(BoundLog(PosixFileSystem(), log)) << "nobody wrote it yet";
  std::ofstream(log) << "line\n";
  EXPECT_OK(BoundLog(PosixFileSystem(), log));
  EXPECT_EQ(std::filesystem::file_size(log), 5u);
  EXPECT_FALSE(std::filesystem::exists(log + ".1"));
}

TEST(LogBound, ALongOneIsCutWhileItsDaemonWritesOn) {
  const muster::testing::TempDir dir;
  const std::string log = dir / "w.log";
  ASSERT_OK_AND_ASSIGN(
      const pid_t pid,
      StartDaemon(
          {"/bin/sh", "-c", "head -c 20000000 /dev/zero; echo before; kill -STOP $$; echo after"},
          log));
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, WUNTRACED), pid);
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_OK(BoundLog(PosixFileSystem(), log));
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ASSERT_OK_AND_ASSIGN(const std::string fresh, PosixFileSystem().ReadFile(log, kMaxLogBytes));
  EXPECT_EQ(fresh, "after\n") << "with no hole before it";
  ASSERT_OK_AND_ASSIGN(const std::string old, PosixFileSystem().ReadFile(log + ".1", 1 << 30));
  EXPECT_EQ(old.size(), kMaxLogBytes);
  EXPECT_EQ(old.substr(old.size() - 7), "before\n");
}

}  // namespace
}  // namespace muster::cli
