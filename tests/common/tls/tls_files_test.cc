#include "common/tls/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_certificates.h"

namespace muster {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::muster::testing::TestCertificates;
using ::testing::AllOf;
using ::testing::HasSubstr;

class TlsFilesTest : public ::testing::Test {
 protected:
  absl::Status Check(const TlsFiles& files) { return CheckTlsFiles(files, now_); }

  TempDir dir_;
  const absl::Time now_ = absl::Now();
  TestCertificates certificates_{dir_.path()};
  TlsFiles files_ = certificates_.OfServer();
};

TEST_F(TlsFilesTest, AcceptsWhatFitsTogether) {
  EXPECT_OK(Check({}));
  EXPECT_OK(Check(files_));
  EXPECT_OK(Check({.ca = files_.ca}));
}

TEST_F(TlsFilesTest, NamesAFileThatIsNotThere) {
  const std::string absent = dir_ / "absent.pem";
  EXPECT_THAT(Check({.ca = absent}), StatusIs(StatusCode::kNotFound, HasSubstr(absent)));
  TlsFiles files = files_;
  files.key = absent;
  EXPECT_THAT(Check(files), StatusIs(StatusCode::kNotFound, HasSubstr(absent)));
  files = files_;
  files.cert = absent;
  EXPECT_THAT(Check(files), StatusIs(StatusCode::kNotFound, HasSubstr(absent)));
}

TEST_F(TlsFilesTest, RefusesWhatIsNoPem) {
  const std::string text = dir_ / "text";
  for (const char* bytes : {"", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n",
                            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}) {
    TestCertificates::Write(text, bytes);
    TlsFiles files = files_;
    files.cert = text;
    EXPECT_THAT(Check(files), StatusIs(StatusCode::kInvalidArgument, HasSubstr(text))) << bytes;
    EXPECT_THAT(Check({.ca = text}), StatusIs(StatusCode::kInvalidArgument, HasSubstr(text)));
    files = files_;
    files.key = text;
    EXPECT_THAT(Check(files), StatusIs(StatusCode::kInvalidArgument, HasSubstr(text)));
  }
}

TEST_F(TlsFilesTest, RefusesAKeyThatOthersRead) {
  for (const mode_t mode : {0644u, 0620u, 0604u}) {
    ASSERT_EQ(::chmod(files_.key.c_str(), mode), 0);
    EXPECT_THAT(Check(files_), StatusIs(StatusCode::kPermissionDenied,
                                        AllOf(HasSubstr(files_.key), HasSubstr("chmod 600"))));
  }
  // As a group for certificates has it.
  ASSERT_EQ(::chmod(files_.key.c_str(), 0640), 0);
  EXPECT_OK(Check(files_));
}

TEST_F(TlsFilesTest, APrivateKeyIsReadUnlessOthersCan) {
  EXPECT_OK(ReadPrivateKey(PosixFileSystem(), files_.key));
  ASSERT_EQ(::chmod(files_.key.c_str(), 0644), 0);
  EXPECT_THAT(ReadPrivateKey(PosixFileSystem(), files_.key),
              StatusIs(StatusCode::kPermissionDenied, HasSubstr("chmod 600")));
  EXPECT_THAT(ReadPrivateKey(PosixFileSystem(), dir_ / "absent.key"),
              StatusIs(StatusCode::kNotFound, HasSubstr("absent.key")));
}

TEST_F(TlsFilesTest, RefusesTheKeyOfAnother) {
  TlsFiles files = files_;
  files.key = certificates_.OfWorker("node-1").key;
  EXPECT_THAT(Check(files), StatusIs(StatusCode::kInvalidArgument,
                                     AllOf(HasSubstr(files.key), HasSubstr(files.cert))));
}

TEST_F(TlsFilesTest, SaysWhenACertificateIsNotForNow) {
  const TlsFiles old = certificates_.OfWorker("old", now_ - absl::Hours(48), absl::Hours(24));
  EXPECT_THAT(Check(old), StatusIs(StatusCode::kFailedPrecondition,
                                   AllOf(HasSubstr(old.cert), HasSubstr("expired"))));
  const TlsFiles early = certificates_.OfWorker("early", now_ + absl::Hours(24));
  EXPECT_THAT(Check(early), StatusIs(StatusCode::kFailedPrecondition,
                                     AllOf(HasSubstr(early.cert), HasSubstr("clock"))));
  EXPECT_THAT(CheckTlsFiles({.ca = files_.ca}, now_ + absl::Hours(24 * 31)),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr(files_.ca)));
}

TEST_F(TlsFilesTest, SaysWhetherTheCaVouchesForAClient) {
  const TlsFiles worker = certificates_.OfWorker("node-1");
  EXPECT_OK(CheckVouchedClient(worker));
  EXPECT_THAT(CheckVouchedClient(files_),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(files_.cert), HasSubstr("as a worker's"))))
      << "a server's";
  TempDir elsewhere;
  TestCertificates other(elsewhere.path());
  TlsFiles foreign = other.OfWorker("node-1");
  EXPECT_OK(CheckVouchedClient(foreign));
  foreign.ca = worker.ca;
  EXPECT_THAT(CheckVouchedClient(foreign),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("does not vouch")));
  EXPECT_THAT(CheckVouchedClient({.ca = dir_ / "absent", .cert = worker.cert}),
              StatusIs(StatusCode::kNotFound));
}

}  // namespace
}  // namespace muster
