// Every method of every service against every role.
#include "controller/access/method_roles.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/declared_services.h"
#include "tests/support/status_matchers.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// "JobService/Submit" of all that is declared in proto/muster/v1.
std::set<std::string> DeclaredMethods() {
  std::set<std::string> methods;
  for (const auto* service : testing::DeclaredServices()) {
    for (int m = 0; m < service->method_count(); ++m) {
      methods.insert(absl::StrCat(service->name(), "/", service->method(m)->name()));
    }
  }
  return methods;
}

Principal Anna(const std::string& project, Role role) {
  Principal anna{.user = "anna", .token_id = 1};
  if (role != Role::kNone) anna.grants[project] = role;
  return anna;
}

TEST(MethodRolesTest, EveryMethodOfEveryServiceHasARow) {
  const std::set<std::string> declared = DeclaredMethods();
  EXPECT_GT(declared.size(), 30u);
  for (const std::string& method : declared) {
    EXPECT_NE(FindMethodRole("/muster.v1." + method), nullptr)
        << method << ": give it a row in controller/access/method_roles.cc";
  }
  std::set<absl::string_view> rows;
  for (const MethodRole& row : AllMethodRoles()) {
    EXPECT_TRUE(rows.insert(row.method).second) << row.method << " has two rows";
    const bool ours = row.method.find('.') == absl::string_view::npos;
    EXPECT_TRUE(!ours || declared.count(std::string(row.method)) != 0)
        << row.method << " is no method";
  }
}

TEST(MethodRolesTest, WhatHasNoRowIsForNobody) {
  for (const char* path : {"/muster.v1.JobService/DropAll", "/muster.v1.JobService/",
                           "/other.JobService/Submit", "/muster.v1.JobService/Submit/", ""}) {
    EXPECT_EQ(FindMethodRole(path), nullptr) << path;
  }
}

// Whoever has a role has what those below it have, and nothing of those above it: of every method.
TEST(MethodRolesTest, EachRoleMayCallWhatItsRowSaysAndNoMore) {
  constexpr Role kRoles[] = {Role::kNone, Role::kViewer, Role::kUser, Role::kOperator,
                             Role::kAdmin};
  int cells = 0;
  for (const MethodRole& row : AllMethodRoles()) {
    for (const Role role : kRoles) {
      ++cells;
      const Principal here = Anna("vision", role);
      const Principal everywhere = Anna(kAllProjects, role);
      const std::string cell = absl::StrCat(row.method, " by ", NameOf(role));
      const bool enough = role >= row.least;
      switch (row.scope) {
        case Scope::kSelf:
          EXPECT_OK(CheckMethod(row, here)) << cell;
          break;
        case Scope::kNobody:
          EXPECT_THAT(CheckMethod(row, everywhere), Not(IsOk())) << cell;
          break;
        case Scope::kCluster:
          EXPECT_THAT(CheckMethod(row, here), Not(IsOk())) << cell;
          EXPECT_EQ(CheckMethod(row, everywhere).ok(), enough) << cell;
          break;
        case Scope::kAnyProject:
        case Scope::kProject:
          EXPECT_EQ(CheckMethod(row, here).ok(), enough) << cell;
          EXPECT_EQ(CheckInProject(row, here, "vision").ok(), enough) << cell;
          EXPECT_EQ(CheckInProject(row, everywhere, "vision").ok(), enough) << cell;
          EXPECT_THAT(CheckInProject(row, here, "speech"), Not(IsOk())) << cell;
          break;
        case Scope::kOwnJob:
          EXPECT_EQ(CheckMethod(row, here).ok(), enough) << cell;
          EXPECT_EQ(CheckJobOf(row, here, "vision", "anna").ok(), enough) << cell;
          EXPECT_EQ(CheckJobOf(row, here, "vision", "bob").ok(), role >= Role::kOperator) << cell;
          EXPECT_EQ(CheckJobOf(row, everywhere, "vision", "bob").ok(), role >= Role::kOperator)
              << cell;
          EXPECT_THAT(CheckJobOf(row, here, "speech", "anna"), Not(IsOk())) << cell;
          break;
      }
    }
  }
  EXPECT_EQ(cells, static_cast<int>(5 * AllMethodRoles().size()));
}

// What the table itself must not say.
TEST(MethodRolesTest, NothingThatChangesIsForViewers) {
  for (const MethodRole& row : AllMethodRoles()) {
    if (row.changes && row.method != "AccessService/RevokeToken") {
      EXPECT_GE(row.least, Role::kUser) << row.method;
    }
    if (row.method.find("AccessService/") == 0 && row.changes && row.scope != Scope::kSelf) {
      EXPECT_EQ(row.least, Role::kAdmin) << row.method;
    }
    if (row.method.find("WorkerService/") == 0) {
      EXPECT_EQ(row.scope, Scope::kNobody) << row.method;
    }
  }
}

TEST(MethodRolesTest, ADenialSaysWhatIsLackingAndWhoCanGiveIt) {
  const MethodRole* cancel = FindMethodRole("JobService/CancelJob");
  ASSERT_NE(cancel, nullptr);
  EXPECT_THAT(CheckJobOf(*cancel, Anna("vision", Role::kUser), "vision", "bob"),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       "needs role operator in project vision; you (anna) have user; ask an admin: "
                       "muster user grant anna vision operator"));
  const MethodRole* drain = FindMethodRole("JobService/CordonWorker");
  ASSERT_NE(drain, nullptr);
  EXPECT_THAT(CheckMethod(*drain, Anna("vision", Role::kAdmin)),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("in all projects"), HasSubstr("anna '*' operator"))));
}

}  // namespace
}  // namespace muster::controller
