#include "worker/agent/join/certificate_renewer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "common/tls/certificate_authority.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::TempDir;
using ::muster::testing::WaitUntil;

TEST(RenewalTimeTest, IsAfterTwoThirdsOfTheLife) {
  const absl::Time issued = absl::FromUnixSeconds(1'700'000'000);
  EXPECT_EQ(RenewalTime(issued, issued + absl::Hours(24)), issued + absl::Hours(16));
}

class CertificateRenewerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    key_ = *MakePrivateKey();
    ASSERT_OK(WriteFileAtomically(fs_, files_.key, key_, 0600));
    ASSERT_OK(WriteFileAtomically(fs_, files_.cert, Sign(*MakeSigningRequest(key_))));
  }
  std::string Sign(const std::string& request) {
    return *authority_.Sign(request, {.name = "node-1"}, signs_at_.value_or(clock_.Now()),
                            absl::Hours(24));
  }
  void Start() {
    renewer_ = std::make_unique<CertificateRenewer>(
        fs_, clock_, files_, http_cert_,
        [this](const std::string& request) -> absl::StatusOr<CertificateRenewer::Renewed> {
          ++asked_;
          if (fails_) return absl::UnavailableError("no controller");
          return CertificateRenewer::Renewed{
              Sign(wrong_key_ ? *MakeSigningRequest(*MakePrivateKey()) : request), http_renewed_};
        });
  }
  std::string Certificate() { return *fs_.ReadFile(files_.cert, 1 << 20); }

  TempDir dir_;
  FileSystem& fs_ = PosixFileSystem();
  SimulatedClock clock_;
  const TlsFiles files_ = {dir_ / "ca.pem", dir_ / "worker.pem", dir_ / "worker.key"};
  const std::string http_cert_ = dir_ / "http.pem";
  std::string http_renewed_ = "of the port";
  CertificateAuthority authority_ =
      *CertificateAuthority::Make("ca", clock_.Now(), absl::Hours(10'000));
  std::string key_;
  std::optional<absl::Time> signs_at_;  // nothing: by the same clock
  std::atomic<int> asked_ = 0;
  std::atomic<bool> fails_ = false;
  std::atomic<bool> wrong_key_ = false;
  std::unique_ptr<CertificateRenewer> renewer_;
};

TEST_F(CertificateRenewerTest, RenewsWhatIsDueAndNothingBefore) {
  const std::string first = Certificate();
  Start();
  ASSERT_OK(renewer_->LookOnce());
  EXPECT_EQ(asked_, 0);
  clock_.Advance(absl::Hours(16));
  ASSERT_OK(renewer_->LookOnce());
  EXPECT_GE(asked_, 1);
  EXPECT_NE(Certificate(), first);
  EXPECT_EQ(*fs_.ReadFile(http_cert_, 1 << 20), "of the port");
}

TEST_F(CertificateRenewerTest, AnOlderControllerLeavesThePortsCertificateAsItIs) {
  ASSERT_OK(WriteFileAtomically(fs_, http_cert_, "as it was"));
  http_renewed_ = "";
  clock_.Advance(absl::Hours(16));
  Start();
  ASSERT_OK(renewer_->LookOnce());
  EXPECT_EQ(*fs_.ReadFile(http_cert_, 1 << 20), "as it was");
}

TEST_F(CertificateRenewerTest, AClockThatIsAheadDoesNotAskAgainAndAgain) {
  signs_at_ = clock_.Now();  // as the controller's clock stands
  clock_.Advance(absl::Hours(20));
  const std::string first = Certificate();
  Start();
  EXPECT_TRUE(WaitUntil(absl::Seconds(30), [&] { return Certificate() != first; }));
  absl::SleepFor(
      absl::Milliseconds(200));  // its thread sleeps then, for as long as the clock stands
  for (int i = 0; i < 100; ++i) ASSERT_OK(renewer_->LookOnce());
  EXPECT_EQ(asked_, 1);
  clock_.Advance(absl::Hours(3));
  ASSERT_OK(renewer_->LookOnce());
  EXPECT_EQ(asked_, 2);
}

TEST_F(CertificateRenewerTest, AFailureKeepsTheFileAndIsTriedAgain) {
  const std::string first = Certificate();
  fails_ = true;
  clock_.Advance(absl::Hours(17));
  Start();
  EXPECT_TRUE(WaitUntil(absl::Seconds(30), [&] { return asked_ >= 1; }));
  EXPECT_EQ(Certificate(), first);
  fails_ = false;
  EXPECT_TRUE(WaitUntil(absl::Seconds(30), [&] {
    clock_.Advance(absl::Seconds(1));
    return Certificate() != first;
  }));
}

TEST_F(CertificateRenewerTest, ACertificateForAnotherKeyIsNotTaken) {
  const std::string first = Certificate();
  wrong_key_ = true;
  clock_.Advance(absl::Hours(17));
  Start();
  EXPECT_TRUE(WaitUntil(absl::Seconds(30), [&] { return asked_ >= 1; }));
  EXPECT_EQ(renewer_->LookOnce().status().code(), StatusCode::kInternal);
  EXPECT_EQ(Certificate(), first);
}

}  // namespace
}  // namespace muster::worker
