#include "common/tls/tls_watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/tls/certificate_facts.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_certificates.h"

namespace muster {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::muster::testing::TestCertificates;
using ::muster::testing::WaitUntil;
using ::testing::HasSubstr;

class TlsWatcherTest : public ::testing::Test {
 protected:
  void Start() {
    ASSERT_OK_AND_ASSIGN(
        watcher_, TlsWatcher::Start(fs_, clock_, files_, dir_ / "in-use", absl::Milliseconds(20)));
  }
  std::string InUse() { return fs_.ReadFile(watcher_->files().cert, 1 << 20).value_or(""); }

  TempDir dir_;
  FileSystem& fs_ = PosixFileSystem();
  RealClock clock_;
  TestCertificates certificates_{dir_.path()};
  TlsFiles files_ = certificates_.OfServer();
  std::unique_ptr<TlsWatcher> watcher_;
};

TEST_F(TlsWatcherTest, CopiesWhatItChecked) {
  Start();
  EXPECT_OK(CheckTlsFiles(watcher_->files(), absl::Now()));
  struct stat info = {};
  ASSERT_EQ(::stat(watcher_->files().key.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(TlsWatcherTest, TellsWhenTheCertificateInUseEnds) {
  Start();
  const auto end_of = [&](const std::string& path) {
    return ReadCertificateFacts(*fs_.ReadFile(path, 1 << 20))->not_after;
  };
  EXPECT_EQ(watcher_->not_after(), end_of(files_.cert));
  const TlsFiles shorter = certificates_.OfWorker("shorter", absl::Now(), absl::Hours(2));
  TestCertificates::Write(files_.key, *fs_.ReadFile(shorter.key, 1 << 20));
  TestCertificates::Write(files_.cert, *fs_.ReadFile(shorter.cert, 1 << 20));
  const absl::Time ends = end_of(shorter.cert);
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] { return watcher_->not_after() == ends; }));
}

TEST_F(TlsWatcherTest, FilesThatDoNotFitDoNotStart) {
  TlsFiles wrong = files_;
  wrong.key = certificates_.OfWorker("node-1").key;
  EXPECT_THAT(TlsWatcher::Start(fs_, clock_, wrong, dir_ / "in-use").status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr(wrong.key)));
}

TEST_F(TlsWatcherTest, TakesOverARenewedPairAndNeverAHalf) {
  Start();
  const std::string first = InUse();
  // Of another key: until the key follows, the first pair stays.
  const TlsFiles other = certificates_.OfWorker("other");
  TestCertificates::Write(files_.cert, *fs_.ReadFile(other.cert, 1 << 20));
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_EQ(InUse(), first);
  TestCertificates::Write(files_.key, *fs_.ReadFile(other.key, 1 << 20));
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] { return InUse() != first; }));
  EXPECT_OK(CheckTlsFiles(watcher_->files(), absl::Now()));
}

TEST_F(TlsWatcherTest, FilesThatAreGoneForAWhileChangeNothing) {
  Start();
  const std::string first = InUse();
  ASSERT_OK(fs_.RemoveFile(files_.cert));
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_EQ(InUse(), first);
  files_ = certificates_.OfServer();
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] { return InUse() != first; }));
}

}  // namespace
}  // namespace muster
