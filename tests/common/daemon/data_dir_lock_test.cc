#include "common/daemon/data_dir_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DataDirLockTest, RefusesASecondHolderAndNamesTheFirst) {
  testing::TempDir dir;
  ASSERT_OK_AND_ASSIGN(auto lock, DataDirLock::Take(dir.path(), "musterd"));
  EXPECT_THAT(DataDirLock::Take(dir.path(), "musterd"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(dir.path()), HasSubstr("another musterd"),
                             HasSubstr(std::to_string(::getpid())))));
  { const DataDirLock gone = std::move(lock); }
  EXPECT_OK(DataDirLock::Take(dir.path(), "musterd"));
}

TEST(DataDirLockTest, AFullDiskIsNotInItsWay) {
  testing::TempDir dir;
  // Nothing can be written, though by another errno than a full disk's.
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit whole = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &whole), 0);
  rlimit nothing = whole;
  nothing.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &nothing), 0);
  const absl::StatusOr<DataDirLock> lock = DataDirLock::Take(dir.path(), "musterd");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &whole), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_OK(lock);
  EXPECT_THAT(DataDirLock::Take(dir.path(), "musterd"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("process ?")));
}

TEST(DataDirLockTest, AFolderThatIsNotThereIsNamed) {
  testing::TempDir dir;
  EXPECT_THAT(DataDirLock::Take(dir / "missing", "musterd"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("missing/lock")));
}

}  // namespace
}  // namespace muster
