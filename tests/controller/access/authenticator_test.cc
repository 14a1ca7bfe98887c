#include "controller/access/authenticator.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class AuthenticatorTest : public ::testing::Test {
 protected:
  AuthenticatorTest() {
    tables_.users["anna"] = {.name = "anna", .created = clock_.Now(), .grants = {}};
    Token& token = tables_.tokens[7];
    token = {.id = 7, .user = "anna", .name = "laptop", .hash = TokenHash("mst_abc")};
    token.expires = clock_.Now() + absl::Hours(1);
    authenticator_.Publish(tables_);
  }
  absl::Status Try(const std::string& token) {
    return authenticator_.Authenticate("Bearer " + token).status();
  }

  SimulatedClock clock_;
  AccessTables tables_;
  Authenticator authenticator_{"the-builtin-one", clock_};
};

TEST_F(AuthenticatorTest, ATokenTellsWhoseItIs) {
  ASSERT_OK_AND_ASSIGN(const auto anna, authenticator_.Authenticate("Bearer mst_abc"));
  EXPECT_EQ(anna->user, "anna");
  EXPECT_EQ(anna->token_name, "laptop");
  EXPECT_FALSE(anna->is_builtin());
  ASSERT_OK_AND_ASSIGN(const auto admin, authenticator_.Authenticate("Bearer the-builtin-one"));
  EXPECT_TRUE(admin->is_builtin());
  EXPECT_EQ(admin->RoleIn("anything"), Role::kAdmin);
  EXPECT_EQ(authenticator_.TakeLastUsed().count(7), 1u);
  EXPECT_TRUE(authenticator_.TakeLastUsed().empty());
}

TEST_F(AuthenticatorTest, WhatIsNoTokenIsRefusedInTheSameWords) {
  for (const std::string& bad :
       {std::string(), std::string("Bearer "), std::string("Bearer mst_ab"), std::string("mst_abc"),
        std::string("bearer mst_abc"), std::string("Bearer  mst_abc"),
        "Bearer " + TokenHash("mst_abc"), std::string("Bearer mst_abc\0", 15),
        std::string(100'000, 'x')}) {
    EXPECT_THAT(authenticator_.Authenticate(bad).status(),
                StatusIs(absl::StatusCode::kUnauthenticated,
                         AllOf(HasSubstr("no valid token"), Not(HasSubstr("anna")))));
  }
}

TEST_F(AuthenticatorTest, AnExpiredOrRevokedTokenIsToldWhatItIs) {
  ASSERT_OK_AND_ASSIGN(const auto anna, authenticator_.Authenticate("Bearer mst_abc"));
  clock_.Advance(absl::Hours(1));
  EXPECT_THAT(Try("mst_abc"), StatusIs(absl::StatusCode::kUnauthenticated,
                                       AllOf(HasSubstr("token laptop of anna expired on"),
                                             HasSubstr("muster token create anna"))));
  EXPECT_THAT(authenticator_.Again(*anna), StatusIs(absl::StatusCode::kUnauthenticated));
  tables_.tokens[7].expires = absl::InfiniteFuture();
  tables_.tokens[7].revoked = clock_.Now();
  authenticator_.Publish(tables_);
  std::shared_ptr<const Principal> known;
  EXPECT_THAT(authenticator_.Authenticate("Bearer mst_abc", &known),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("was revoked on")));
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(known->user, "anna");
}

// It was revoked while the clock ran ahead.
TEST_F(AuthenticatorTest, ATokenThatWasRevokedInTheFutureIsRevoked) {
  ASSERT_OK_AND_ASSIGN(const auto anna, authenticator_.Authenticate("Bearer mst_abc"));
  tables_.tokens[7].revoked = clock_.Now() + absl::Hours(24);
  authenticator_.Publish(tables_);
  EXPECT_THAT(Try("mst_abc"),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("was revoked on")));
  EXPECT_THAT(authenticator_.Again(*anna), StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST_F(AuthenticatorTest, GrantsActOnWhoWasLetInBefore) {
  ASSERT_OK_AND_ASSIGN(const auto before, authenticator_.Authenticate("Bearer mst_abc"));
  tables_.users["anna"].grants["vision"] = Role::kUser;
  authenticator_.Publish(tables_);
  EXPECT_EQ(before->RoleIn("vision"), Role::kNone);
  ASSERT_OK_AND_ASSIGN(const auto now, authenticator_.Again(*before));
  EXPECT_EQ(now->RoleIn("vision"), Role::kUser);
  tables_.users.clear();
  authenticator_.Publish(tables_);
  EXPECT_THAT(authenticator_.Again(*before), StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST(TokenTextTest, EachIsNewAndLong) {
  ASSERT_OK_AND_ASSIGN(const std::string one, MakeTokenText());
  ASSERT_OK_AND_ASSIGN(const std::string other, MakeTokenText());
  EXPECT_EQ(one.size(), 4 + 64u);
  EXPECT_NE(one, other);
  EXPECT_NE(TokenHash(one), TokenHash(other));
}

}  // namespace
}  // namespace muster::controller
