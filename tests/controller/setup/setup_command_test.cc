#include "controller/setup/setup_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <vector>

#include "common/tls/certificate_authority.h"
#include "common/tls/certificate_facts.h"
#include "common/tls/tls_files.h"
#include "controller/config.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::absl::StatusCode;
using ::muster::testing::FaultyFileSystem;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SetupCommandTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::string> Run(std::vector<std::string> words, FileSystem* fs = nullptr) {
    words.insert(words.begin(), "musterd");
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    EXPECT_TRUE(IsSetupCommand(static_cast<int>(argv.size()), argv.data()));
    return RunSetupCommand(static_cast<int>(argv.size()), argv.data(),
                           fs == nullptr ? PosixFileSystem() : *fs, now_);
  }
  absl::StatusOr<std::string> Init() {
    return Run({"init", "--data-dir", data_dir_, "--host", "muster.example.org"});
  }
  absl::StatusOr<std::string> Certify(const std::string& name) {
    return Run({"certify", name, "--data-dir", data_dir_, "--out", dir_ / name});
  }
  std::string Read(const std::string& path) { return *PosixFileSystem().ReadFile(path, 1 << 20); }
  TlsFiles ServerFiles() const {
    const std::string tls = data_dir_ + "/tls/";
    return {tls + "ca.pem", tls + "server.pem", tls + "server.key"};
  }

  TempDir dir_;
  const std::string data_dir_ = dir_ / "controller";
  const absl::Time now_ = absl::Now();
};

TEST_F(SetupCommandTest, AFirstInitMakesWhatMusterdStartsWith) {
  ASSERT_OK_AND_ASSIGN(const std::string text, Init());
  EXPECT_THAT(text, AllOf(HasSubstr("muster.example.org, "), HasSubstr("127.0.0.1"),
                          HasSubstr("musterd --config"), HasSubstr("musterd certify")));
  EXPECT_OK(CheckTlsFiles(ServerFiles(), now_));
  EXPECT_OK(CheckTlsFiles(ServerFiles(), now_ + absl::Hours(24 * 3000)));
  for (const char* secret : {"/token", "/tls/ca.key", "/tls/server.key"}) {
    struct stat info = {};
    ASSERT_EQ(::stat((data_dir_ + secret).c_str(), &info), 0) << secret;
    EXPECT_EQ(info.st_mode & 0777, 0600u) << secret;
  }
  const std::string config = data_dir_ + "/musterd.yaml";
  const char* argv[] = {"musterd", "--config", config.c_str()};
  ASSERT_OK_AND_ASSIGN(const CommandLine line, ParseCommandLine(3, argv));
  EXPECT_EQ(line.config.data_dir, data_dir_);
  EXPECT_EQ(line.config.tls.cert, ServerFiles().cert);
  EXPECT_EQ(line.config.listen, "0.0.0.0:7070");
  EXPECT_FALSE(ServesUnencrypted(line.config));
}

TEST_F(SetupCommandTest, AKeyThatOthersReadIsNotUsed) {
  ASSERT_OK(Init());
  ASSERT_OK(Certify("node-1"));
  for (const std::string& key : {dir_ / "node-1/worker.key", data_dir_ + "/tls/ca.key"}) {
    ASSERT_EQ(::chmod(key.c_str(), 0644), 0);
    EXPECT_THAT(Certify("node-1"), StatusIs(StatusCode::kPermissionDenied,
                                            AllOf(HasSubstr(key), HasSubstr("chmod 600"))));
  }
}

TEST_F(SetupCommandTest, AnotherInitKeepsTheCaTheTokenAndTheConfiguration) {
  ASSERT_OK(Init());
  const std::string token = Read(data_dir_ + "/token"), ca = Read(ServerFiles().ca);
  const std::string server = Read(ServerFiles().cert);
  std::filesystem::resize_file(data_dir_ + "/musterd.yaml", 10);
  ASSERT_OK_AND_ASSIGN(const std::string text, Init());
  EXPECT_THAT(text, HasSubstr("was there and stays"));
  EXPECT_EQ(Read(data_dir_ + "/token"), token);
  EXPECT_EQ(Read(ServerFiles().ca), ca);
  EXPECT_NE(Read(ServerFiles().cert), server);
  EXPECT_OK(CheckTlsFiles(ServerFiles(), now_));
  EXPECT_EQ(Read(data_dir_ + "/musterd.yaml").size(), 10u);
}

TEST_F(SetupCommandTest, AnotherHostIsAddedToThoseThatMusterdHas) {
  ASSERT_OK(Init());
  const std::string key = Read(ServerFiles().key);
  ASSERT_OK(Run({"init", "--data-dir", data_dir_, "--host", "10.0.0.5"}));
  ASSERT_OK(Run({"init", "--data-dir", data_dir_, "--host", "other.example.org"}));
  ASSERT_OK_AND_ASSIGN(const CertificateFacts facts,
                       ReadCertificateFacts(Read(ServerFiles().cert)));
  EXPECT_THAT(facts.names,
              ::testing::IsSupersetOf({"muster.example.org", "other.example.org", "localhost"}));
  EXPECT_THAT(facts.addresses, ::testing::UnorderedElementsAre("10.0.0.5", "127.0.0.1", "::1"));
  EXPECT_EQ(Read(ServerFiles().key), key);
  EXPECT_OK(CheckTlsFiles(ServerFiles(), now_));
}

TEST_F(SetupCommandTest, AWorkersCertificateFitsItsKeyAndTheCa) {
  EXPECT_THAT(Certify("node-1").status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("musterd init")));
  ASSERT_OK(Init());
  ASSERT_OK_AND_ASSIGN(const std::string text, Certify("node-1"));
  EXPECT_THAT(text, AllOf(HasSubstr("365 days"), HasSubstr("--name node-1")));
  const std::string folder = dir_ / "node-1";
  EXPECT_OK(
      CheckTlsFiles({folder + "/ca.pem", folder + "/worker.pem", folder + "/worker.key"}, now_));
  EXPECT_EQ(Read(folder + "/ca.pem"), Read(ServerFiles().ca));
  for (const char* bad : {"Node-1", "-a", "a.b", "a,DNS:b"}) {
    EXPECT_THAT(Certify(bad).status(), StatusIs(StatusCode::kInvalidArgument)) << bad;
  }
}

TEST_F(SetupCommandTest, OneCertificateForWorkersThatShareIt) {
  ASSERT_OK(Init());
  const std::string folder = dir_ / "gpu";
  ASSERT_OK_AND_ASSIGN(const std::string text, Run({"certify", "gpu-0", "gpu-1", "--data-dir",
                                                    data_dir_, "--out", folder}));
  EXPECT_THAT(text, HasSubstr("gpu-0, gpu-1"));
  EXPECT_OK(
      CheckTlsFiles({folder + "/ca.pem", folder + "/worker.pem", folder + "/worker.key"}, now_));
  EXPECT_OK(
      CheckTlsFiles({folder + "/ca.pem", folder + "/http.pem", folder + "/worker.key"}, now_));
  ASSERT_OK_AND_ASSIGN(const CertificateFacts http,
                       ReadCertificateFacts(Read(folder + "/http.pem")));
  EXPECT_EQ(http.names, std::vector<std::string>{"workers.muster.internal"});
  EXPECT_THAT(Run({"certify", "gpu-0", "Gpu", "--data-dir", data_dir_, "--out", folder}).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("Gpu")));
}

TEST_F(SetupCommandTest, SaysWhatIsWrongWithTheCommandLine) {
  EXPECT_THAT(Run({"init"}).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("--data-dir")));
  EXPECT_THAT(Run({"init", "--data-dir", data_dir_, "--host", "a b"}).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("a b")));
  EXPECT_THAT(Run({"certify", "--data-dir", data_dir_}).status(),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(*Run({"certify", "--help"}), HasSubstr("--days"));
}

TEST_F(SetupCommandTest, AFaultOfTheDiskAnywhereIsMendedByTheNextInit) {
  FaultyFileSystem counted(PosixFileSystem());
  ASSERT_OK(Run({"init", "--data-dir", dir_ / "counted"}, &counted));
  ASSERT_GT(counted.operations(), 10);
  for (int n = 1; n <= counted.operations(); ++n) {
    const std::string folder = dir_ / absl::StrCat("failed-", n);
    FaultyFileSystem faulty(PosixFileSystem());
    faulty.FailAt(n, absl::ResourceExhaustedError("no space left"));
    EXPECT_FALSE(Run({"init", "--data-dir", folder}, &faulty).ok()) << n;
    ASSERT_OK(Run({"init", "--data-dir", folder})) << n;
    EXPECT_OK(CheckTlsFiles(
        {folder + "/tls/ca.pem", folder + "/tls/server.pem", folder + "/tls/server.key"}, now_))
        << n;
  }
}

}  // namespace
}  // namespace muster::controller
