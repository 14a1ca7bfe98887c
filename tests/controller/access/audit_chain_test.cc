#include "controller/access/audit_chain.h"

#include <gmock/gmock.h>

#include <functional>
#include <set>
#include <vector>

#include "tests/support/status_matchers.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

AuditRow First() {
  AuditRow row{.seq = 1,
               .entry = {.time = absl::FromUnixMillis(5),
                         .user = "anna",
                         .token_name = "laptop",
                         .method = "JobService/Submit",
                         .project = "vision",
                         .object = "job 1",
                         .outcome = "OK",
                         .detail = "d"},
               .hash = ""};
  row.hash = AuditHash(FirstAuditHash(), row);
  return row;
}

TEST(AuditChainTest, EveryFieldIsInTheHash) {
  const std::vector<std::function<void(AuditRow&)>> changes = {
      [](AuditRow& row) { row.seq = 2; },
      [](AuditRow& row) { row.entry.time += absl::Milliseconds(1); },
      [](AuditRow& row) { row.entry.user = "bob"; },
      [](AuditRow& row) { row.entry.token_name = "desk"; },
      [](AuditRow& row) { row.entry.method = "JobService/CancelJob"; },
      [](AuditRow& row) { row.entry.project = "speech"; },
      [](AuditRow& row) { row.entry.object = "job 2"; },
      [](AuditRow& row) { row.entry.outcome = "PERMISSION_DENIED"; },
      [](AuditRow& row) { row.entry.count = 2; },
      [](AuditRow& row) { row.entry.detail = ""; },
      // What stands in one field is not in the next one.
      [](AuditRow& row) { row.entry.user = "annal", row.entry.token_name = "aptop"; },
  };
  std::set<std::string> hashes = {First().hash, AuditHash("other", First())};
  for (const auto& change : changes) {
    AuditRow row = First();
    change(row);
    EXPECT_TRUE(hashes.insert(AuditHash(FirstAuditHash(), row)).second);
    AuditPoint end{.seq = 0, .hash = FirstAuditHash()};
    EXPECT_THAT(FollowAuditRow(row, end),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("audit row 1")));
    EXPECT_EQ(end.seq, 0u);
  }
  AuditPoint end{.seq = 0, .hash = FirstAuditHash()};
  EXPECT_OK(FollowAuditRow(First(), end));
  EXPECT_EQ(end.seq, 1u);
}

}  // namespace
}  // namespace muster::controller
