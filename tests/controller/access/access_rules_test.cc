#include "controller/access/access_rules.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

class AccessRulesTest : public ::testing::Test {
 protected:
  AccessRulesTest() { EXPECT_OK(AddUser(tables_, "anna", kNow)); }

  absl::StatusOr<uint64_t> Make(const std::string& name, absl::Duration lifetime = absl::Hours(1),
                                absl::Time now = kNow) {
    Token token;
    token.user = "anna";
    token.name = name;
    token.hash = absl::StrCat("hash of ", name, tables_.last_token);
    token.created = now;
    token.expires = now + lifetime;
    return AddUserToken(tables_, token, now, removed_);
  }

  AccessTables tables_;
  std::vector<uint64_t> removed_;
};

TEST_F(AccessRulesTest, NamesOfUsersAreChecked) {
  for (const char* bad : {"", "-a", ".a", "Anna", "a b", "a/b", "a\n", "*", "anna\xc3\xa9"}) {
    EXPECT_THAT(AddUser(tables_, bad, kNow), StatusIs(absl::StatusCode::kInvalidArgument)) << bad;
  }
  EXPECT_THAT(AddUser(tables_, std::string(65, 'a'), kNow),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(AddUser(tables_, "admin", kNow), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_TRUE(AddUser(tables_, "j.doe_2-x", kNow).value());
  EXPECT_FALSE(AddUser(tables_, "anna", kNow).value());
}

TEST_F(AccessRulesTest, ARoleIsGivenChangedAndTakenBack) {
  EXPECT_OK(GrantRole(tables_, "anna", "vision", Role::kViewer));
  EXPECT_OK(GrantRole(tables_, "anna", "vision", Role::kAdmin));
  EXPECT_EQ(tables_.users["anna"].grants["vision"], Role::kAdmin);
  EXPECT_THAT(GrantRole(tables_, "bob", "vision", Role::kUser),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("muster user add bob")));
  EXPECT_THAT(GrantRole(tables_, "anna", "Vision!", Role::kUser),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(GrantRole(tables_, "anna", "vision", Role::kNone),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_OK(GrantRole(tables_, "anna", "*", Role::kViewer));
  EXPECT_OK(RevokeRole(tables_, "anna", "vision"));
  EXPECT_THAT(RevokeRole(tables_, "anna", "vision"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(AccessRulesTest, ALiveTokensNameIsTakenAndADeadOnesIsNot) {
  ASSERT_OK_AND_ASSIGN(const uint64_t first, Make("laptop"));
  EXPECT_THAT(Make("laptop"), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("revoke 1")));
  EXPECT_TRUE(RevokeToken(tables_, first, kNow).value());
  EXPECT_FALSE(RevokeToken(tables_, first, kNow).value());
  ASSERT_OK_AND_ASSIGN(const uint64_t second, Make("laptop"));
  EXPECT_GT(second, first);
  EXPECT_THAT(Make("laptop", absl::Hours(1), kNow + absl::Hours(2)), IsOk());  // it has expired
  EXPECT_THAT(Make("x", absl::ZeroDuration()), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(RevokeToken(tables_, 99, kNow), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(AccessRulesTest, ATokenStaysRevokedWhenTheClockIsSetBack) {
  ASSERT_OK_AND_ASSIGN(const uint64_t id, Make("laptop"));
  EXPECT_TRUE(RevokeToken(tables_, id, kNow + absl::Hours(24)).value());
  EXPECT_FALSE(tables_.tokens[id].IsLive(kNow));
  EXPECT_FALSE(RevokeToken(tables_, id, kNow).value());
}

TEST_F(AccessRulesTest, TokensOfAUserAreBounded) {
  for (size_t i = 0; i < kMostLiveTokens; ++i) ASSERT_OK(Make(absl::StrCat("t", i)));
  EXPECT_THAT(Make("more"), StatusIs(absl::StatusCode::kResourceExhausted));
  for (int day = 1; day < 100; ++day) {
    ASSERT_OK(Make("daily", absl::Hours(1), kNow + day * absl::Hours(24)));
  }
  EXPECT_LE(tables_.tokens.size(), kMostDeadTokens + 2);
  EXPECT_FALSE(removed_.empty());
  EXPECT_EQ(tables_.last_token, kMostLiveTokens + 99);
}

TEST_F(AccessRulesTest, AUserGoesWithTheirTokens) {
  ASSERT_OK(Make("a"));
  ASSERT_OK(Make("b"));
  EXPECT_EQ(RemoveUser(tables_, "anna", kNow).value(), 2u);
  EXPECT_TRUE(tables_.tokens.empty());
  EXPECT_THAT(RemoveUser(tables_, "anna", kNow), StatusIs(absl::StatusCode::kNotFound));
}

// Jobs are under their owner's name.
TEST_F(AccessRulesTest, ANameOfARemovedUserIsGivenAgainOnlyWhenThatIsSaid) {
  EXPECT_OK(RemoveUser(tables_, "anna", kNow));
  EXPECT_THAT(AddUser(tables_, "anna", kNow),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("`muster user add anna --reuse-name`")));
  EXPECT_TRUE(AddUser(tables_, "anna", kNow, /*reuse_name=*/true).value());
  EXPECT_FALSE(AddUser(tables_, "anna", kNow).value());  // a repeat
  EXPECT_OK(RemoveUser(tables_, "anna", kNow));
  EXPECT_THAT(AddUser(tables_, "anna", kNow), StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace muster::controller
