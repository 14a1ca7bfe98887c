#include "controller/access/access_control.h"

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "controller/access/access_rules.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;

class AccessControlTest : public ::testing::Test {
 protected:
  void Open(AccessOptions options = {}) {
    options.path = dir_ / "access.db";
    options.retry = absl::Milliseconds(20);
    auto opened = AccessControl::Open(std::move(options), "builtin-token", clock_);
    ASSERT_OK(opened);
    control_ = *std::move(opened);
  }
  AuditEntry Entry(const std::string& object, const std::string& outcome = "OK") {
    return {.time = clock_.Now(),
            .user = "admin",
            .method = "AccessService/AddUser",
            .object = object,
            .outcome = outcome};
  }
  absl::Status Change(AccessControl::Edit edit) {
    std::promise<absl::Status> ended;
    control_->Change(std::move(edit), Entry("a change"),
                     [&](const absl::Status& status) { ended.set_value(status); });
    return ended.get_future().get();
  }
  absl::Status Add(const std::string& user) {
    return Change([this, user](AccessTables& tables, AccessControl::Touched& touched) {
      const auto added = AddUser(tables, user, clock_.Now());
      if (added.ok() && *added) touched.users.push_back(user);
      return added.status();
    });
  }
  absl::Status Make(const std::string& user, const std::string& text) {
    return Change([this, user, text](AccessTables& tables, AccessControl::Touched& touched) {
      Token token{.id = 0, .user = user, .name = "laptop", .hash = TokenHash(text)};
      token.created = clock_.Now();
      const auto id = AddUserToken(tables, token, clock_.Now(), touched.tokens);
      if (id.ok()) touched.tokens.push_back(*id);
      return id.status();
    });
  }
  AuditPage Read() {
    std::promise<absl::StatusOr<AuditPage>> read;
    control_->ReadAudit({.most = 1000},
                        [&](absl::StatusOr<AuditPage> page) { read.set_value(std::move(page)); });
    absl::StatusOr<AuditPage> page = read.get_future().get();
    EXPECT_OK(page);
    return page.ok() ? *page : AuditPage();
  }
  absl::StatusOr<AuditVerdict> Verify() {
    std::promise<absl::StatusOr<AuditVerdict>> verdict;
    control_->VerifyAudit({}, [&](absl::StatusOr<AuditVerdict> v) { verdict.set_value(v); });
    return verdict.get_future().get();
  }

  testing::TempDir dir_;
  SimulatedClock clock_;
  std::unique_ptr<AccessControl> control_;
};

TEST_F(AccessControlTest, WhatWasAnsweredIsThereInTheNextLife) {
  Open();
  ASSERT_OK(Add("anna"));
  ASSERT_OK(Make("anna", "mst_secret"));
  EXPECT_OK(control_->authenticator().Authenticate("Bearer mst_secret"));
  control_.reset();
  Open();
  EXPECT_OK(control_->authenticator().Authenticate("Bearer mst_secret"));
  ASSERT_OK(Change([this](AccessTables& tables, AccessControl::Touched& touched) {
    touched.tokens.push_back(1);
    return RevokeToken(tables, 1, clock_.Now()).status();
  }));
  EXPECT_THAT(control_->authenticator().Authenticate("Bearer mst_secret"),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("revoked")));
  control_.reset();
  Open();
  EXPECT_THAT(control_->authenticator().Authenticate("Bearer mst_secret"),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("revoked")));
  EXPECT_EQ(Read().rows.size(), 3u);
  ASSERT_OK_AND_ASSIGN(const AuditVerdict verdict, Verify());
  EXPECT_EQ(verdict.rows, 3u);
}

TEST_F(AccessControlTest, WhatChangedNothingHasNoRow) {
  Open();
  ASSERT_OK(Add("anna"));
  ASSERT_OK(Add("anna"));
  EXPECT_THAT(Add("-"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(Read().rows.size(), 1u);
}

TEST_F(AccessControlTest, RowsOfManyThreadsAreAllThereAndInOneChain) {
  Open();
  constexpr int kThreads = 8;
  constexpr int kRows = 50;
  std::atomic<int> told = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRows; ++i) {
        control_->Record(Entry(absl::StrCat(t, "-", i)), [&] { ++told; });
        control_->RecordDenial(Entry("denied", "PERMISSION_DENIED"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  control_->Stop();
  EXPECT_EQ(told, kThreads * kRows);
  control_.reset();
  Open();
  ASSERT_OK_AND_ASSIGN(const AuditVerdict verdict, Verify());
  EXPECT_EQ(verdict.rows, kThreads * kRows + 2u);
  uint64_t denied = 0;
  for (const AuditRow& row : Read().rows) {
    if (row.entry.is_denial()) denied += row.entry.count;
  }
  EXPECT_EQ(denied, static_cast<uint64_t>(kThreads * kRows));
}

TEST_F(AccessControlTest, AfterTheStopNobodyIsLeftWaiting) {
  Open();
  control_->Stop();
  bool told = false;
  control_->Record(Entry("late"), [&] { told = true; });
  EXPECT_TRUE(told);
  EXPECT_THAT(Add("anna"), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Verify(), StatusIs(absl::StatusCode::kUnavailable));
}

// No room: changes are refused and change nothing, and a row of one that is made waits.
TEST_F(AccessControlTest, OnAFullDiskNothingIsChanged) {
  AccessOptions small;
  small.database_max_bytes = 80 << 10;
  Open(small);
  ASSERT_OK(Add("anna"));
  int rows = 1;
  while (control_->CanRecord().ok() && rows < 1000) {
    std::promise<void> told;
    AuditEntry entry = Entry(absl::StrCat(rows, std::string(250, 'x')));
    entry.detail = std::string(500, 'y');
    control_->Record(std::move(entry), [&] { told.set_value(); });
    told.get_future().get();
    ++rows;
  }
  EXPECT_THAT(control_->CanRecord(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("nothing may be changed")));
  EXPECT_THAT(Make("anna", "mst_secret"), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(control_->authenticator().Authenticate("Bearer mst_secret"),
              StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_OK(Verify());
}

// A flood of calls that change nothing keeps no change from the disk.
TEST_F(AccessControlTest, WhatChangesNothingWritesNothingAndNeedsNoRoom) {
  Open();
  ASSERT_OK(Add("anna"));
  const auto log_bytes = std::filesystem::file_size(dir_ / "access.db-wal");
  for (int i = 0; i < 100; ++i) EXPECT_OK(Add("anna"));
  EXPECT_THAT(Make("nobody", "mst_secret"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(std::filesystem::file_size(dir_ / "access.db-wal"), log_bytes);
  EXPECT_EQ(Read().rows.size(), 1u);
}

// The token itself is in no file of the controller.
TEST_F(AccessControlTest, NoTokenIsStored) {
  Open();
  ASSERT_OK(Add("anna"));
  ASSERT_OK_AND_ASSIGN(const std::string text, MakeTokenText());
  ASSERT_OK(Make("anna", text));
  EXPECT_OK(control_->authenticator().Authenticate("Bearer " + text));
  EXPECT_FALSE(control_->authenticator().Authenticate("Bearer " + text + "0").ok());
  control_.reset();
  bool hash_found = false;
  for (const auto& file : std::filesystem::directory_iterator(dir_.path())) {
    std::ifstream in(file.path());
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_THAT(bytes, Not(HasSubstr(text.substr(4)))) << file.path();
    EXPECT_THAT(bytes, Not(HasSubstr("builtin-token"))) << file.path();
    hash_found = hash_found || bytes.find(TokenHash(text)) != std::string::npos;
  }
  EXPECT_TRUE(hash_found);  // so that the search would find it
}

TEST_F(AccessControlTest, ARemovedUsersNameIsKnownInTheNextLife) {
  Open();
  ASSERT_OK(Add("anna"));
  ASSERT_OK(Change([this](AccessTables& tables, AccessControl::Touched& touched) {
    touched.users.push_back("anna");
    return RemoveUser(tables, "anna", clock_.Now()).status();
  }));
  control_.reset();
  Open();
  EXPECT_THAT(Add("anna"), StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_OK(Change([this](AccessTables& tables, AccessControl::Touched& touched) {
    touched.users.push_back("anna");
    return AddUser(tables, "anna", clock_.Now(), /*reuse_name=*/true).status();
  }));
  control_.reset();
  Open();
  EXPECT_EQ(control_->tables()->users.count("anna"), 1u);
  EXPECT_TRUE(control_->tables()->removed.empty());
}

// Each is answered, the first once its row is durable; the others are counted.
TEST_F(AccessControlTest, AChangeThatIsRepeatedIsCounted) {
  Open();
  constexpr int kTimes = 1000;
  std::atomic<int> told = 0;
  for (int i = 0; i < kTimes; ++i) {
    control_->Record(Entry("job 1"), [&] { ++told; });
  }
  control_.reset();
  EXPECT_EQ(told, kTimes);
  Open();
  const AuditPage page = Read();
  ASSERT_EQ(page.rows.size(), 2u);
  EXPECT_EQ(page.rows[0].entry.count, kTimes - 1u);
  EXPECT_EQ(page.rows[1].entry.count, 1u);
}

}  // namespace
}  // namespace muster::controller
