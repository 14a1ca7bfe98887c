#include "controller/access/audit_fold.h"

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

TEST(AuditFoldTest, TheFirstOneIsARowAndEqualOnesOfAMinuteAreOneMore) {
  AuditFold fold;
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
TEST(AuditFoldTest, AFloodMakesABoundedNumberOfRowsAndLosesNoCount) {
  AuditFold fold;
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

// An hour of somebody without a token who asks for everything there is, twice a minute.
TEST(AuditFoldTest, UnknownCallersAreOneKindAndTakeNoRowsOfOthers) {
  AuditFold fold;
  uint64_t added = 0;
  uint64_t told = 0;
  uint64_t rows = 0;
  absl::Duration now = absl::Hours(1);
  const auto take = [&](bool all = false) {
    for (const AuditEntry& due : fold.TakeDue(now, absl::UnixEpoch(), all)) {
      ++rows, told += due.count;
      EXPECT_EQ(due.method, "any");
    }
  };
  for (int half_minute = 0; half_minute < 2 * 60; ++half_minute, now += absl::Seconds(30)) {
    take();
    for (int method = 0; method < 47; ++method, ++added) {
      const auto row = fold.Add({.method = absl::StrCat("JobService/M", method),
                                 .project = absl::StrCat("p", method),
                                 .outcome = "UNAUTHENTICATED"},
                                now);
      if (row.has_value()) ++rows, told += row->count;
    }
  }
  for (int i = 0; i < AuditFold::kBurst; ++i) {
    EXPECT_TRUE(fold.Add(Denied(absl::StrCat("user-", i)), now).has_value()) << i;
  }
  take(/*all=*/true);
  EXPECT_EQ(told, added);
  EXPECT_LE(rows, 2 * 60u + 1);
}

// A worker that is refused each minute, whatever it asks for, hides no machine that may not join.
TEST(AuditFoldTest, RefusedAgentsAreAKindOfTheirOwn) {
  AuditFold fold;
  const absl::Duration now = absl::Hours(1);
  const auto refused = [&](const char* method, bool by_agent) {
    return fold.Add({.method = method, .outcome = "PERMISSION_DENIED", .by_agent = by_agent}, now);
  };
  EXPECT_TRUE(refused("UploadService/Fetch", true).has_value());
  EXPECT_FALSE(refused("WorkerService/Control", true).has_value());
  EXPECT_TRUE(refused("EnrollService/Enroll", false).has_value());
  EXPECT_FALSE(refused("EnrollService/Enroll", false).has_value());
  const auto due = fold.TakeDue(now + absl::Minutes(1), absl::UnixEpoch());
  ASSERT_EQ(due.size(), 2u);
  EXPECT_EQ(due[0].count, 1u);
  EXPECT_EQ(due[1].method, "EnrollService/Enroll");
}

// A loop of `muster hold` and `muster release`: neither fills the record.
TEST(AuditFoldTest, EqualChangesOfAMinuteAreTwoRows) {
  AuditFold fold;
  const auto change = [&](const std::string& object, absl::Duration now) {
    return fold.Add(
        {.user = "anna", .method = "JobService/ControlJob", .object = object, .outcome = "OK"},
        now);
  };
  const absl::Duration now = absl::Hours(1);
  EXPECT_TRUE(change("job 1", now).has_value());
  EXPECT_TRUE(change("job 2", now).has_value());  // another change
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(change("job 1", now).has_value());
  const auto due = fold.TakeDue(now + absl::Minutes(1), absl::UnixEpoch());
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].object, "job 1");
  EXPECT_EQ(due[0].count, 1000u);
  EXPECT_TRUE(change("job 1", now + absl::Minutes(1)).has_value());
}

// Further kinds of changes are rows at once: none is lost, and denials still have theirs.
TEST(AuditFoldTest, OnlySoManyKindsAreAwaited) {
  AuditFold fold;
  const absl::Duration now = absl::Hours(1);
  const auto change = [&](size_t job) {
    return fold.Add({.user = "anna", .object = absl::StrCat("job ", job), .outcome = "OK"}, now);
  };
  for (size_t i = 0; i < AuditFold::kMostKinds; ++i) ASSERT_TRUE(change(i).has_value());
  EXPECT_FALSE(change(0).has_value());
  EXPECT_TRUE(change(AuditFold::kMostKinds).has_value());
  EXPECT_TRUE(change(AuditFold::kMostKinds).has_value());
  EXPECT_TRUE(fold.Add(Denied("bob"), now).has_value());
}

}  // namespace
}  // namespace muster::controller
