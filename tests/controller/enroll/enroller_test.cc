#include "controller/enroll/enroller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include "common/protocol/join_token.h"
#include "common/protocol/name_rule.h"
#include "common/protocol/worker_server_name.h"
#include "common/tls/openssl_types.h"
#include "controller/setup/setup_command.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::HasSubstr;

// A machine with a key of its own.
struct Machine {
  std::string key = *MakePrivateKey();
  std::string request = *MakeSigningRequest(key);
};

class EnrollerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* argv[] = {"musterd", "init", "--data-dir", data_dir_.c_str()};
    ASSERT_OK(RunSetupCommand(4, argv, PosixFileSystem(), clock_.Now()));
    Restart();
  }
  void Restart() {
    enroller_.reset();
    EnrollerOptions options;
    options.data_dir = data_dir_;
    options.certificate_lifetime = absl::Hours(24);
    options.tls = {data_dir_ + "/tls/ca.pem", data_dir_ + "/tls/server.pem",
                   data_dir_ + "/tls/server.key"};
    ASSERT_OK_AND_ASSIGN(enroller_, Enroller::Open(options, PosixFileSystem(), clock_));
  }
  JoinTokenText Token(uint32_t uses, bool may_replace = false) {
    Enroller::TokenWish wish;
    wish.max_uses = uses;
    wish.lifetime = absl::Hours(1);
    wish.may_replace = may_replace;
    const auto made = enroller_->CreateToken(wish);
    EXPECT_OK(made);
    return *ParseJoinToken(made->text);
  }
  absl::StatusOr<Enroller::Made> Enroll(const JoinTokenText& token, const std::string& name,
                                        const Machine& machine) {
    return enroller_->Enroll({token.id, token.secret, name, machine.request});
  }
  // The certificate (PEM) that `musterd certify` makes for these workers, in certified_.
  std::string Certify(const std::vector<const char*>& workers) {
    std::vector<const char*> argv = {"musterd", "certify"};
    argv.insert(argv.end(), workers.begin(), workers.end());
    argv.insert(argv.end(), {"--data-dir", data_dir_.c_str(), "--out", certified_.c_str()});
    EXPECT_OK(RunSetupCommand(static_cast<int>(argv.size()), argv.data(), PosixFileSystem(),
                              clock_.Now()));
    return *PosixFileSystem().ReadFile(certified_ + "/worker.pem", 1 << 20);
  }
  uint32_t UsesOf(const JoinTokenText& token) {
    const auto tokens = enroller_->Tokens();
    for (const JoinTokenRow& row : *tokens) {
      if (row.id == token.id) return row.uses;
    }
    return 0;
  }

  TempDir dir_;
  const std::string data_dir_ = dir_ / "controller";
  const std::string certified_ = dir_ / "certified";
  SimulatedClock clock_;
  std::unique_ptr<Enroller> enroller_;
};

// Whether the certificate (PEM) may be used for `purpose`, one of OpenSSL's.
bool IsFor(int purpose, const std::string& pem) {
  const OwnedCertificate certificate(
      PEM_read_bio_X509(BioOf(pem).get(), nullptr, nullptr, nullptr));
  return X509_check_purpose(certificate.get(), purpose, /*ca=*/0) == 1;
}

TEST_F(EnrollerTest, AWorkersPortHasACertificateThatServesNothingElse) {
  const Machine machine;
  ASSERT_OK_AND_ASSIGN(const Enroller::Made made, Enroll(Token(1), "node-1", machine));
  EXPECT_TRUE(IsFor(X509_PURPOSE_SSL_SERVER, made.http_certificate));
  EXPECT_FALSE(IsFor(X509_PURPOSE_SSL_CLIENT, made.http_certificate));
  EXPECT_TRUE(IsFor(X509_PURPOSE_SSL_CLIENT, made.certificate));
  EXPECT_FALSE(IsFor(X509_PURPOSE_SSL_SERVER, made.certificate)) << "it could be the controller";
  ASSERT_OK_AND_ASSIGN(const CertificateFacts facts, ReadCertificateFacts(made.http_certificate));
  for (const std::string& name : facts.names) EXPECT_EQ(name, kWorkerServerName);
  EXPECT_FALSE(IsName(kWorkerServerName)) << "no worker may be called so";
  ASSERT_OK_AND_ASSIGN(const CertificateFacts own, ReadCertificateFacts(made.certificate));
  EXPECT_EQ(facts.key_sha256, own.key_sha256);
  ASSERT_OK_AND_ASSIGN(const Enroller::Made renewed,
                       enroller_->Renew(made.certificate, machine.request));
  EXPECT_TRUE(IsFor(X509_PURPOSE_SSL_SERVER, renewed.http_certificate));
}

TEST_F(EnrollerTest, AUseIsCountedOnceForEachMachineAcrossRestarts) {
  const JoinTokenText token = Token(2);
  const Machine first, second, third;
  ASSERT_OK(Enroll(token, "a", first));
  ASSERT_OK(Enroll(token, "a", first));
  Restart();
  ASSERT_OK(Enroll(token, "a", first));
  EXPECT_EQ(UsesOf(token), 1u);
  ASSERT_OK(Enroll(token, "b", second));
  EXPECT_THAT(Enroll(token, "c", third).status(),
              StatusIs(StatusCode::kPermissionDenied, HasSubstr("used up")));
  // The same key for another name is another use.
  EXPECT_THAT(Enroll(token, "c", first).status(), StatusIs(StatusCode::kPermissionDenied));
  ASSERT_OK(Enroll(token, "a", first));
  EXPECT_EQ(UsesOf(token), 2u);
}

TEST_F(EnrollerTest, ATokenEndsAndIsForgottenLater) {
  const JoinTokenText token = Token(5);
  clock_.Advance(absl::Hours(1));
  EXPECT_THAT(Enroll(token, "a", {}).status(),
              StatusIs(StatusCode::kPermissionDenied, HasSubstr("expired")));
  clock_.Advance(Enroller::kTokensKept + absl::Hours(1));
  (void)Token(1);
  EXPECT_EQ(enroller_->Tokens()->size(), 1u);
  EXPECT_THAT(Enroll(token, "a", {}).status(),
              StatusIs(StatusCode::kPermissionDenied, HasSubstr("not known")));
}

TEST_F(EnrollerTest, ANameIsItsHoldersUntilTheCertificateEnds) {
  const Machine holder, other;
  ASSERT_OK(Enroll(Token(1), "a", holder));
  Restart();
  EXPECT_THAT(Enroll(Token(1), "a", other).status(), StatusIs(StatusCode::kAlreadyExists));
  clock_.Advance(absl::Hours(24));
  EXPECT_OK(Enroll(Token(1), "a", other));
}

TEST_F(EnrollerTest, WhoIsReplacedIsRefused) {
  const Machine holder, other;
  ASSERT_OK_AND_ASSIGN(const Enroller::Made before, Enroll(Token(1), "a", holder));
  ASSERT_OK_AND_ASSIGN(const Enroller::Made after, Enroll(Token(1, true), "a", other));
  EXPECT_TRUE(after.replaced);
  for (int life = 0; life < 2; ++life) {
    EXPECT_THAT(enroller_->CheckCertificate(before.certificate),
                StatusIs(StatusCode::kPermissionDenied));
    EXPECT_OK(enroller_->CheckCertificate(after.certificate));
    Restart();
  }
}

TEST_F(EnrollerTest, ARevokedNameNeedsANewKeyAndANewerToken) {
  const Machine machine, fresh;
  const JoinTokenText before = Token(3);
  ASSERT_OK_AND_ASSIGN(const Enroller::Made made, Enroll(before, "a", machine));
  ASSERT_OK_AND_ASSIGN(const Enroller::Made same_key, Enroll(before, "b", machine));
  ASSERT_OK(enroller_->Revoke("a"));
  Restart();
  EXPECT_THAT(enroller_->CheckCertificate(made.certificate),
              StatusIs(StatusCode::kPermissionDenied, HasSubstr("revoked")));
  EXPECT_THAT(enroller_->Renew(made.certificate, machine.request).status(),
              StatusIs(StatusCode::kPermissionDenied));
  // The key is, wherever it is shown.
  EXPECT_THAT(enroller_->CheckCertificate(same_key.certificate),
              StatusIs(StatusCode::kPermissionDenied));
  EXPECT_THAT(Enroll(before, "a", fresh).status(),
              StatusIs(StatusCode::kPermissionDenied, HasSubstr("needs a newer one")));
  clock_.Advance(absl::Milliseconds(1));
  const JoinTokenText after = Token(2);
  EXPECT_THAT(Enroll(after, "a", machine).status(),
              StatusIs(StatusCode::kPermissionDenied, HasSubstr("key")));
  ASSERT_OK_AND_ASSIGN(const Enroller::Made back, Enroll(after, "a", fresh));
  EXPECT_OK(enroller_->CheckCertificate(back.certificate));
}

TEST_F(EnrollerTest, ARevocationHoldsForWhatWasMadeByAClockThatRanAhead) {
  const Machine machine, fresh;
  clock_.JumpWall(absl::Minutes(30));
  const JoinTokenText before = Token(3);
  ASSERT_OK_AND_ASSIGN(const Enroller::Made made, Enroll(before, "a", machine));
  ASSERT_OK_AND_ASSIGN(const CertificateFacts facts, ReadCertificateFacts(made.certificate));
  clock_.JumpWall(-absl::Minutes(30));
  ASSERT_OK_AND_ASSIGN(const Enroller::Held held, enroller_->Revoke("a"));
  EXPECT_FALSE(held.valid);
  EXPECT_GE(*held.revoked, facts.not_before + kCertificateBackdate);
  Restart();
  EXPECT_THAT(Enroll(before, "a", fresh).status(),
              StatusIs(StatusCode::kPermissionDenied, HasSubstr("needs a newer one")));
  // Repeated it is no earlier, and a token that is made now is later than it.
  ASSERT_OK_AND_ASSIGN(const Enroller::Held again, enroller_->Revoke("a"));
  EXPECT_GE(*again.revoked, absl::FromUnixMillis(absl::ToUnixMillis(*held.revoked)));
  EXPECT_OK(Enroll(Token(1), "a", fresh));
}

TEST_F(EnrollerTest, ANameThatWasRevokedFarInTheFutureGetsNoCertificateThatIsNotValidYet) {
  clock_.JumpWall(absl::Hours(3));
  ASSERT_OK(enroller_->Revoke("a"));
  clock_.JumpWall(-absl::Hours(3));
  const JoinTokenText token = Token(1);
  EXPECT_THAT(Enroll(token, "a", {}).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("another name")));
  EXPECT_EQ(UsesOf(token), 0u);
}

TEST_F(EnrollerTest, ACertificateMadeByCertifyHoldsItsNameAndIsRevokedByIt) {
  const std::string shown = Certify({"node-7"});
  ASSERT_OK(enroller_->CheckCertificate(shown));
  ASSERT_OK(enroller_->StoreSeen());
  Restart();
  EXPECT_THAT(Enroll(Token(1), "node-7", {}).status(), StatusIs(StatusCode::kAlreadyExists));
  clock_.Advance(absl::Seconds(2));
  ASSERT_OK(enroller_->Revoke("node-7"));
  EXPECT_THAT(enroller_->CheckCertificate(shown), StatusIs(StatusCode::kPermissionDenied));
}

TEST_F(EnrollerTest, RenewsForTheNameAndKeyThatAreShown) {
  const Machine machine, other;
  ASSERT_OK_AND_ASSIGN(const Enroller::Made made, Enroll(Token(1), "a", machine));
  clock_.Advance(absl::Hours(16));
  ASSERT_OK_AND_ASSIGN(const Enroller::Made renewed,
                       enroller_->Renew(made.certificate, machine.request));
  EXPECT_EQ(renewed.not_after, made.not_after + absl::Hours(16));
  ASSERT_OK_AND_ASSIGN(const CertificateFacts facts, ReadCertificateFacts(renewed.certificate));
  EXPECT_EQ(facts.names.front(), "a");
  EXPECT_THAT(enroller_->Renew(made.certificate, other.request).status(),
              StatusIs(StatusCode::kPermissionDenied, HasSubstr("another key")));
}

TEST_F(EnrollerTest, ACertificateOfSeveralWorkersIsNotRenewedForOneAlone) {
  const std::string shown = Certify({"node-1", "node-2"});
  ASSERT_OK_AND_ASSIGN(const std::string key,
                       ReadPrivateKey(PosixFileSystem(), certified_ + "/worker.key"));
  EXPECT_THAT(
      enroller_->Renew(shown, *MakeSigningRequest(key)).status(),
      StatusIs(StatusCode::kFailedPrecondition, HasSubstr("musterd certify node-1 node-2")));
}

// Else a person would think that the worker is gone.
TEST_F(EnrollerTest, WithoutTlsNothingIsRevoked) {
  enroller_.reset();
  EnrollerOptions options;
  options.data_dir = data_dir_;
  ASSERT_OK_AND_ASSIGN(enroller_, Enroller::Open(options, PosixFileSystem(), clock_));
  EXPECT_THAT(enroller_->Revoke("node-1").status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("without TLS")));
}

TEST_F(EnrollerTest, ANameOfASharedCertificateIsNotReplacedSinceAllOfThemWouldBeLost) {
  const std::string shown = Certify({"node-1", "node-2"});
  ASSERT_OK(enroller_->CheckCertificate(shown));
  EXPECT_THAT(Enroll(Token(1, true), "node-1", {}).status(),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("with worker node-2")));
  EXPECT_OK(enroller_->CheckCertificate(shown));
  clock_.Advance(absl::Seconds(2));
  ASSERT_OK(enroller_->Revoke("node-1"));
  EXPECT_THAT(enroller_->CheckCertificate(shown), StatusIs(StatusCode::kPermissionDenied));
  clock_.Advance(absl::Seconds(2));
  EXPECT_OK(Enroll(Token(1, true), "node-1", {}));
}

TEST_F(EnrollerTest, TheCaKeyIsNotUsedWhereOthersReadIt) {
  const std::string key = data_dir_ + "/tls/ca.key";
  ASSERT_EQ(::chmod(key.c_str(), 0644), 0);
  EXPECT_THAT(enroller_->Authority().status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("chmod 600")));
}

TEST_F(EnrollerTest, RefusesWhatDoesNotFit) {
  const JoinTokenText token = Token(1);
  EXPECT_THAT(Enroll(token, "../a", {}).status(), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(enroller_->Enroll({token.id, token.secret, "a", "no request"}).status(),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(enroller_->Enroll({token.id, token.secret, "a", std::string(9 << 10, 'x')}).status(),
              StatusIs(StatusCode::kInvalidArgument));
  JoinTokenText guessed = token;
  guessed.secret.back() = guessed.secret.back() == '0' ? '1' : '0';
  EXPECT_THAT(Enroll(guessed, "a", {}).status(), StatusIs(StatusCode::kPermissionDenied));
  EXPECT_THAT(enroller_->CheckCertificate("nothing"), StatusIs(StatusCode::kUnauthenticated));
  EXPECT_THAT(enroller_->CreateToken({.max_uses = 0, .lifetime = absl::Hours(1)}).status(),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(enroller_->CreateToken({.max_uses = 1, .lifetime = absl::Hours(24 * 31)}).status(),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(UsesOf(token), 0u);
}

}  // namespace
}  // namespace muster::controller
