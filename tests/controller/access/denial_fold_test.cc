#include "controller/access/denial_fold.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"

namespace muster::controller {
namespace {

AuditEntry Denied(const std::string& user, const std::string& object = "job 1") {
  return {.user = user,
          .method = "JobService/CancelJob",
          .object = object,
          .outcome = "PERMISSION_DENIED"};
}

TEST(DenialFoldTest, TheFirstOneIsARowAndEqualOnesOfAMinuteAreOneMore) {
  DenialFold fold;
  absl::Duration now = absl::Hours(1);
  EXPECT_TRUE(fold.Add(Denied("anna"), now).has_value());
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(fold.Add(Denied("anna", absl::StrCat("job ", i)), now).has_value());
  }
  EXPECT_TRUE(fold.TakeDue(now + absl::Seconds(59), absl::UnixEpoch()).empty());
  EXPECT_EQ(fold.next_due(), now + absl::Minutes(1));
  const auto due = fold.TakeDue(now + absl::Minutes(1), absl::UnixEpoch());
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].count, 1000u);
  EXPECT_EQ(due[0].object, "job 999");
  EXPECT_EQ(fold.next_due(), absl::InfiniteDuration());
  now += absl::Minutes(2);
  EXPECT_TRUE(fold.Add(Denied("anna"), now).has_value());
}

// Two hours of a new caller each time: rows stay few, and every denial is in one of them.
TEST(DenialFoldTest, AFloodMakesABoundedNumberOfRowsAndLosesNoCount) {
  DenialFold fold;
  uint64_t added = 0;
  uint64_t told = 0;
  uint64_t rows = 0;
  absl::Duration now = absl::Hours(1);
  for (int second = 0; second < 2 * 3600; ++second, now += absl::Seconds(1)) {
    for (int i = 0; i < 10; ++i) {
      if (fold.Add(Denied(absl::StrCat("user-", added++)), now).has_value()) ++rows, ++told;
    }
    for (const AuditEntry& due : fold.TakeDue(now, absl::UnixEpoch())) ++rows, told += due.count;
  }
  for (const AuditEntry& due : fold.TakeDue(now, absl::UnixEpoch(), /*all=*/true)) {
    ++rows, told += due.count;
  }
  EXPECT_EQ(told, added);
  EXPECT_LE(rows, 100u + 2 * 3600 / 6 + 2 * 60 + 2);
  EXPECT_GE(rows, 500u);
}

}  // namespace
}  // namespace muster::controller
