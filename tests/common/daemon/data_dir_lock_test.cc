#include "common/daemon/data_dir_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
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

TEST(DataDirLockTest, AFolderThatIsNotThereIsNamed) {
  testing::TempDir dir;
  EXPECT_THAT(DataDirLock::Take(dir / "missing", "musterd"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("missing/lock")));
}

}  // namespace
}  // namespace muster
