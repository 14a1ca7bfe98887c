// The record of machines that join.
#include "controller/api/enroll_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/metrics/metric_names.h"
#include "common/protocol/join_token.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "tests/controller/api/initialised_enroller.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

class EnrollServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(enroller_, OpenEnrollerIn(dir_ / "controller", clock_));
    ASSERT_OK_AND_ASSIGN(access_,
                         AccessControl::Open({.path = dir_ / "access.db"}, "secret", clock_));
    gate_ = std::make_unique<CallGate>("secret", families_, clock_, RateLimit(), StreamPatience(),
                                       access_.get());
    thread_ = std::make_unique<EnrollThread>(*enroller_);
    service_ = std::make_unique<EnrollService>(*thread_, *gate_, clock_, EnrollServiceOptions());
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = v1::EnrollService::NewStub(MakeChannel({.address = absl::StrCat("127.0.0.1:", port)}));
  }
  void TearDown() override { server_->Shutdown(); }

  JoinTokenText TokenOf(const std::string& user, bool may_replace) {
    Enroller::TokenWish wish;
    wish.max_uses = 10;
    wish.lifetime = absl::Hours(1);
    wish.may_replace = may_replace;
    wish.user = user;
    const auto made = enroller_->CreateToken(wish);
    EXPECT_OK(made);
    return *ParseJoinToken(made->text);
  }
  // A machine with a new key.
  absl::Status Enroll(const JoinTokenText& token, const std::string& name) {
    v1::EnrollRequest request;
    request.set_token_id(token.id);
    request.set_secret(token.secret);
    request.set_name(name);
    request.set_request(*MakeSigningRequest(*MakePrivateKey()));
    grpc::ClientContext context;
    v1::EnrollResponse response;
    return FromGrpc(stub_->Enroll(&context, request, &response));
  }
  std::vector<AuditEntry> Rows() {
    std::promise<std::vector<AuditEntry>> rows;
    access_->ReadAudit({}, [&](absl::StatusOr<AuditPage> page) {
      std::vector<AuditEntry> entries;
      if (page.ok()) {
        for (const AuditRow& row : page->rows) entries.push_back(row.entry);
      }
      rows.set_value(std::move(entries));
    });
    return rows.get_future().get();
  }

  testing::TempDir dir_;
  SimulatedClock clock_;
  MetricFamilies families_{metric::kControllerDroppedTotal};
  std::unique_ptr<AccessControl> access_;
  std::unique_ptr<CallGate> gate_;
  std::unique_ptr<Enroller> enroller_;
  std::unique_ptr<EnrollThread> thread_;
  std::unique_ptr<EnrollService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::EnrollService::Stub> stub_;
};

TEST_F(EnrollServiceTest, WhoJoinedIsOnRecord) {
  const JoinTokenText annas = TokenOf("anna", /*may_replace=*/false);
  const JoinTokenText bobs = TokenOf("bob", /*may_replace=*/true);
  ASSERT_OK(Enroll(annas, "gpu-1"));
  ASSERT_OK(Enroll(bobs, "gpu-1"));
  const std::vector<AuditEntry> rows = Rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].object, absl::StrCat("worker gpu-1 by join token ", annas.id, " of anna"));
  EXPECT_EQ(rows[0].object, absl::StrCat("worker gpu-1 in place of another machine by join token ",
                                         bobs.id, " of bob"));
  for (const AuditEntry& row : rows) {
    EXPECT_EQ(row.method, "EnrollService/Enroll");
    EXPECT_EQ(row.outcome, "OK");
  }
}

TEST_F(EnrollServiceTest, RefusedJoinsAreOneKindOfDenial) {
  const JoinTokenText token = TokenOf("anna", /*may_replace=*/false);
  JoinTokenText guess = token;
  guess.secret = std::string(token.secret.size(), '0');
  EXPECT_THAT(Enroll(guess, "gpu-1"), StatusIs(absl::StatusCode::kPermissionDenied));
  ASSERT_OK(Enroll(token, "gpu-1"));
  EXPECT_THAT(Enroll(token, "gpu-1"), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(Enroll(guess, "gpu-2"), StatusIs(absl::StatusCode::kPermissionDenied));
  clock_.Advance(absl::Minutes(1));
  const std::vector<AuditEntry> rows = Rows();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[2].object, "worker gpu-1");
  EXPECT_THAT(rows[2].detail, HasSubstr("not known here"));
  EXPECT_EQ(rows[0].object, "worker gpu-2");
  EXPECT_EQ(rows[0].count, 2u);
  for (const int i : {0, 2}) {
    EXPECT_EQ(rows[i].method, "EnrollService/Enroll");
    EXPECT_EQ(rows[i].outcome, "PERMISSION_DENIED");
    EXPECT_EQ(rows[i].user, "");
  }
}

// Each with one message and a row of its own, where they come a minute apart.
TEST_F(EnrollServiceTest, EachRefusalOfATokenIsOnRecord) {
  const auto token_with = [&](uint32_t uses, absl::Duration lifetime, const std::string& prefix) {
    Enroller::TokenWish wish;
    wish.max_uses = uses;
    wish.lifetime = lifetime;
    wish.name_prefix = prefix;
    wish.user = "anna";
    const auto made = enroller_->CreateToken(wish);
    EXPECT_OK(made);
    return *ParseJoinToken(made->text);
  };
  const JoinTokenText short_lived = token_with(1, absl::Minutes(1), "");
  const JoinTokenText used = token_with(1, absl::Hours(5), "");
  const JoinTokenText revoked = token_with(1, absl::Hours(5), "");
  const JoinTokenText gpus = token_with(9, absl::Hours(5), "gpu-");
  ASSERT_OK(Enroll(used, "gpu-1"));
  ASSERT_OK(enroller_->RevokeToken(revoked.id));
  JoinTokenText foreign = gpus;  // of another controller, whose fingerprint nobody compared
  foreign.id = std::string(foreign.id.size(), 'f');
  clock_.Advance(absl::Minutes(2));
  struct Case {
    JoinTokenText token;
    std::string name;
    std::string says;
  };
  const std::vector<Case> cases = {{short_lived, "gpu-2", "expired at"},
                                   {used, "gpu-3", "is used up: 1 of 1"},
                                   {revoked, "gpu-4", "was revoked"},
                                   {gpus, "cpu-1", "names begin with `gpu-`, not for cpu-1"},
                                   {foreign, "gpu-5", "is of another controller"}};
  for (const Case& each : cases) {
    EXPECT_THAT(Enroll(each.token, each.name),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(each.says)));
    clock_.Advance(absl::Minutes(2));
    (void)Rows();  // by then it is seen that the minute is over
  }
  std::vector<AuditEntry> rows = Rows();
  std::erase_if(rows, [](const AuditEntry& row) { return row.outcome == "OK"; });
  ASSERT_EQ(rows.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    const AuditEntry& row = rows[cases.size() - 1 - i];  // newest first
    EXPECT_EQ(row.method, "EnrollService/Enroll");
    EXPECT_EQ(row.outcome, "PERMISSION_DENIED");
    EXPECT_THAT(row.object, HasSubstr("worker " + cases[i].name));
    EXPECT_THAT(row.detail, HasSubstr(cases[i].says));
  }
}

}  // namespace
}  // namespace muster::controller
