#include "common/daemon/descriptor_limit.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using ::muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Only lowers the soft bound, and gives it back.
class DescriptorLimitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &whole_), 0);
    rlimit low = whole_;
    low.rlim_cur = 100;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  }
  void TearDown() override { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &whole_), 0); }

  rlimit whole_ = {};
};

TEST_F(DescriptorLimitTest, TheSoftBoundIsRaisedAsFarAsIsWanted) {
  ASSERT_OK_AND_ASSIGN(const uint64_t raised, RaiseDescriptorLimit("musterd", 64, 200));
  EXPECT_EQ(raised, 200u);
  rlimit now = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, 200u);
  EXPECT_EQ(now.rlim_max, whole_.rlim_max);
  ASSERT_OK_AND_ASSIGN(const uint64_t kept, RaiseDescriptorLimit("musterd", 64, 150));
  EXPECT_EQ(kept, 200u) << "never lowered";
}

TEST_F(DescriptorLimitTest, TooFewAreRefusedWithTheWayOut) {
  EXPECT_THAT(RaiseDescriptorLimit("musterd", 300, 200),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("musterd may open only 200 files"), HasSubstr("needs 300"),
                             HasSubstr("LimitNOFILE="))));
}

}  // namespace
}  // namespace muster
