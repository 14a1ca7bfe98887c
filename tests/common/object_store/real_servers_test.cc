// The client and its cache against servers that others wrote: Debian's nginx, and moto, which
// speaks S3 and verifies signatures. Each is started here on loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/object_store/cache/cached_file_system.h"
#include "common/object_store/remote_file_system.h"
#include "tests/support/lasting_port.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kLong = absl::Seconds(60);

std::string SomeBytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 13);
  return bytes;
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteText(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Once: a server that is not up yet is asked again by the test.
RemoteOptions Impatient() {
  RemoteOptions options;
  options.retry.first_delay = options.retry.max_delay = 2 * options.retry.operation_deadline;
  return options;
}

class NginxTest : public ::testing::Test {
 protected:
  NginxTest() {
    ::setenv("no_proxy", "127.0.0.1", 1);
    EXPECT_EQ(RunProcess({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj",
                          "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                          folder_ / "key.pem", "-out", folder_ / "certificate.pem"},
                         {}, kLong)
                  .exit_code,
              0);
    for (const char* name : {"root", "root/data", "root/data/deep", "root/closed", "tmp"}) {
      std::filesystem::create_directory(folder_ / name);
    }
    WriteText(folder_ / "root/data/a.tar", object_);
    WriteText(folder_ / "root/data/b 100%.tar", "odd");
    WriteText(folder_ / "root/data/empty", "");
    WriteText(
        folder_ / "nginx.conf",
        absl::StrCat("daemon off; master_process off; error_log stderr; pid ", folder_ / "pid",
                     ";\nevents {}\nhttp {\nlog_format bytes '$body_bytes_sent $request_method';\n",
                     "access_log ", folder_ / "access", " bytes;\n", "client_body_temp_path ",
                     folder_ / "tmp/b", ";\nproxy_temp_path ", folder_ / "tmp/p",
                     ";\nfastcgi_temp_path ", folder_ / "tmp/f", ";\nuwsgi_temp_path ",
                     folder_ / "tmp/u", ";\nscgi_temp_path ", folder_ / "tmp/s",
                     ";\nserver {\nlisten ", address_, ";\nlisten ", tls_address_,
                     " ssl;\nssl_certificate ", folder_ / "certificate.pem",
                     ";\nssl_certificate_key ", folder_ / "key.pem", ";\nroot ", folder_ / "root",
                     ";\nlocation /data/ { autoindex on; autoindex_format json; }",
                     "\nlocation /html/ { alias ", folder_ / "root/data/",
                     "; autoindex on; }\nlocation /closed/ { deny all; }\n}\n}\n"));
    nginx_ = std::make_unique<Subprocess>(
        std::vector<std::string>{"/usr/sbin/nginx", "-e", "stderr", "-p", folder_.path(), "-c",
                                 folder_ / "nginx.conf"},
        Environment(), folder_ / "log");
    RemoteFileSystem probe({}, Impatient());
    is_up_ = WaitUntil(kLong, [&] { return probe.Exists(Url("/data/a.tar")).ok(); });
  }
  void SetUp() override { ASSERT_TRUE(is_up_) << ReadText(folder_ / "log"); }

  std::string Url(const std::string& path) const { return "http://" + address_ + path; }
  // Of all answers to GET so far, and only of those that have ended.
  uint64_t BytesSent() const {
    uint64_t sum = 0;
    for (absl::string_view line : absl::StrSplit(ReadText(folder_ / "access"), '\n')) {
      const std::pair<absl::string_view, absl::string_view> words = absl::StrSplit(line, ' ');
      uint64_t bytes = 0;
      if (words.second == "GET" && absl::SimpleAtoi(words.first, &bytes)) sum += bytes;
    }
    return sum;
  }

  TempDir folder_;
  const std::string object_ = SomeBytes(5'000'000);
  const std::string address_ = LastingAddress();
  const std::string tls_address_ = LastingAddress();
  std::unique_ptr<Subprocess> nginx_;
  bool is_up_ = false;
};

TEST_F(NginxTest, FilesAreReadAndListed) {
  RemoteFileSystem fs({});
  ASSERT_OK_AND_ASSIGN(const std::vector<FileInfo> files, fs.List(Url("/data")));
  ASSERT_EQ(files.size(), 4u);
  EXPECT_EQ(files[0].name, "a.tar");
  EXPECT_EQ(files[0].size_bytes, object_.size());
  EXPECT_TRUE(files[2].is_directory);
  for (const FileInfo& file : files) {
    if (file.is_directory) continue;
    ASSERT_OK_AND_ASSIGN(const std::string whole,
                         fs.ReadFile(Url("/data/") + file.name, 10'000'000));
    EXPECT_EQ(whole.size(), file.size_bytes) << file.name;
  }
  ASSERT_OK_AND_ASSIGN(const std::string whole, fs.ReadFile(Url("/data/a.tar"), 10'000'000));
  EXPECT_TRUE(whole == object_);
  char buffer[100];
  ASSERT_OK_AND_ASSIGN(const uint64_t got, fs.ReadAt(Url("/data/a.tar"), 4'999'990, buffer, 100));
  EXPECT_EQ(got, 10u);
  ASSERT_OK_AND_ASSIGN(const uint64_t none, fs.ReadAt(Url("/data/empty"), 0, buffer, 100));
  EXPECT_EQ(none, 0u);
}

TEST_F(NginxTest, WhatIsThereAndWhatIsNot) {
  RemoteFileSystem fs({});
  for (const auto& [path, is_there] :
       {std::pair("/data/a.tar", true), std::pair("/data/deep", true), std::pair("/data/", true),
        std::pair("/data/gone", false), std::pair("/data/gone/", false)}) {
    ASSERT_OK_AND_ASSIGN(const bool exists, fs.Exists(Url(path)));
    EXPECT_EQ(exists, is_there) << path;
  }
  EXPECT_THAT(fs.FileSize(Url("/data/gone")), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(fs.FileSize(Url("/data/deep")), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(fs.FileSize(Url("/closed/x")), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(fs.List(Url("/closed")), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(fs.List(Url("/data/gone")), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(fs.List(Url("/html")),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("autoindex_format json")));
}

TEST_F(NginxTest, AFileThatIsReplacedIsCaught) {
  RemoteFileSystem fs({});
  char buffer[100];
  ASSERT_OK(fs.ReadAt(Url("/data/a.tar"), 0, buffer, 100));
  WriteText(folder_ / "root/data/new", object_ + "!");
  std::filesystem::rename(folder_ / "root/data/new", folder_ / "root/data/a.tar");
  EXPECT_THAT(fs.ReadAt(Url("/data/a.tar"), 100, buffer, 100),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("replaced")));
}

TEST_F(NginxTest, CertificatesAreVerified) {
  const std::string url = "https://" + tls_address_ + "/data/a.tar";
  RemoteFileSystem distrusting({});
  EXPECT_THAT(distrusting.FileSize(url),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("certificate"), HasSubstr("AWS_CA_BUNDLE"))));
  AwsSettings settings;
  settings.ca_bundle = folder_ / "certificate.pem";
  RemoteFileSystem trusting(settings);
  ASSERT_OK_AND_ASSIGN(const uint64_t size, trusting.FileSize(url));
  EXPECT_EQ(size, object_.size());
}

TEST_F(NginxTest, EightProcessesSendEachByteOnce) {
  std::vector<std::thread> waiters;
  for (int p = 0; p < 8; ++p) {
    waiters.emplace_back([&, p] {
      const ProcessResult result =
          RunProcess({BLOCK_CACHE_READER, Url("/data/a.tar"), folder_ / "cache",
                      "--block-bytes=262144", absl::StrCat("--from=", p / 16.0)},
                     {}, kLong);
      EXPECT_EQ(result.exit_code, 0) << result.err;
    });
  }
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_TRUE(WaitUntil(kLong, [&] { return BytesSent() >= object_.size(); }));
  EXPECT_EQ(BytesSent(), object_.size());
}

class MotoTest : public ::testing::Test {
 protected:
  MotoTest() {
    ::setenv("no_proxy", "127.0.0.1", 1);
    const std::string port = address_.substr(address_.find(':') + 1);
    moto_ = std::make_unique<Subprocess>(
        std::vector<std::string>{MUSTER_PYTHON, "-m", "moto.server", "-H", "127.0.0.1", "-p", port},
        Environment{{"INITIAL_NO_AUTH_ACTION_COUNT", "3"}}, folder_ / "log");
    RemoteFileSystem probe({}, Impatient());
    is_up_ = WaitUntil(kLong, [&] {
      return moto_->Wait(absl::ZeroDuration()) || probe.Exists(Endpoint() + "/moto-api/").ok();
    });
    const ProcessResult user = RunProcess(
        {MUSTER_PYTHON, SourceDir() + "/tests/common/object_store/make_s3_user.py", Endpoint()},
        {{"no_proxy", "127.0.0.1"}}, kLong);
    is_up_ = is_up_ && user.exit_code == 0;
    error_ = user.err;
    const std::vector<std::string> key =
        absl::StrSplit(user.out, absl::ByAnyChar(" \n"), absl::SkipEmpty());
    if (key.size() == 2) settings_.credentials = AwsCredentials{key[0], key[1], ""};
    settings_.endpoint = Endpoint();
  }
  void SetUp() override {
    ASSERT_TRUE(is_up_) << "does the virtual environment have moto (scripts/setup --tests)? "
                        << error_ << ReadText(folder_ / "log");
    fs_ = std::make_unique<RemoteFileSystem>(settings_);
  }

  static std::string SourceDir() {
    const char* folder = ::getenv("MUSTER_SOURCE_DIR");
    return folder == nullptr ? "." : folder;
  }
  std::string Endpoint() const { return "http://" + address_; }
  absl::Status Write(const std::string& path, const std::string& bytes) {
    absl::StatusOr<std::unique_ptr<WritableFile>> file = fs_->CreateExclusive(path);
    if (!file.ok()) return file.status();
    const absl::Status appended = (*file)->Append(bytes);
    return appended.ok() ? (*file)->Close() : appended;
  }

  TempDir folder_;
  const std::string address_ = LastingAddress();
  std::unique_ptr<Subprocess> moto_;
  AwsSettings settings_;
  std::unique_ptr<RemoteFileSystem> fs_;
  bool is_up_ = false;
  std::string error_;
};

// One server for all of it: it takes seconds to start.
TEST_F(MotoTest, SpeaksS3) {
  // Names of all kinds, written, listed, read, removed.
  const std::vector<std::string> names = {"a+b=c&d", "caf\xC3\xA9 100%", "plain.tar", "x'(!)*~"};
  for (const std::string& name : names) {
    ASSERT_OK(Write("s3://data/train/" + name, "bytes of " + name));
  }
  ASSERT_OK(Write("s3://data/train/deep/er", "x"));
  ASSERT_OK_AND_ASSIGN(const std::vector<FileInfo> files, fs_->List("s3://data/train"));
  std::vector<std::string> listed;
  for (const FileInfo& file : files) {
    if (!file.is_directory) listed.push_back(file.name);
  }
  EXPECT_EQ(listed, names);
  EXPECT_EQ(files.size(), 5u);
  for (const std::string& name : names) {
    ASSERT_OK_AND_ASSIGN(const std::string read, fs_->ReadFile("s3://data/train/" + name, 100));
    EXPECT_EQ(read, "bytes of " + name);
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<FileInfo> top, fs_->List("s3://data"));
  ASSERT_EQ(top.size(), 1u);
  EXPECT_TRUE(top[0].is_directory);
  for (const auto& [path, is_there] :
       {std::pair("s3://data/train/plain.tar", true), std::pair("s3://data/train", true),
        std::pair("s3://data/trai", false), std::pair("s3://data", true),
        std::pair("s3://nothing/x", false)}) {
    ASSERT_OK_AND_ASSIGN(const bool exists, fs_->Exists(path));
    EXPECT_EQ(exists, is_there) << path;
  }
  EXPECT_THAT(fs_->List("s3://data/trai"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(fs_->FileSize("s3://data/gone"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Write("s3://data/train/plain.tar", "again"),
              StatusIs(absl::StatusCode::kAlreadyExists));

  // In parts, and ranges of it.
  const std::string large = SomeBytes(20 << 20);
  ASSERT_OK(Write("s3://data/large", large));
  ASSERT_OK_AND_ASSIGN(const std::string read, fs_->ReadFile("s3://data/large", 30 << 20));
  EXPECT_TRUE(read == large);
  std::string range(1000, '\0');
  ASSERT_OK(fs_->ReadAt("s3://data/large", 15 << 20, range.data(), range.size()));
  EXPECT_TRUE(range == large.substr(15 << 20, 1000));

  // Replaced by somebody else while it is in use.
  RemoteFileSystem other(settings_);
  ASSERT_OK(other.RemoveFile("s3://data/large"));
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WritableFile> file,
                         other.CreateExclusive("s3://data/large"));
    ASSERT_OK(file->Append(SomeBytes((20 << 20) + 1)));
    ASSERT_OK(file->Close());
  }
  EXPECT_THAT(fs_->ReadAt("s3://data/large", 0, range.data(), range.size()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("replaced")));

  ASSERT_OK(fs_->RemoveFile("s3://data/train/plain.tar"));
  ASSERT_OK_AND_ASSIGN(const bool exists, fs_->Exists("s3://data/train/plain.tar"));
  EXPECT_FALSE(exists);
  EXPECT_THAT(fs_->RemoveFile("s3://data/train/plain.tar"), StatusIs(absl::StatusCode::kNotFound));

  // More than one page of a list.
  std::vector<std::thread> writers;
  for (int t = 0; t < 4; ++t) {
    writers.emplace_back([&, t] {
      for (int i = t; i < 1010; i += 4) {
        EXPECT_OK(Write(absl::StrCat("s3://data/many/", i), "x"));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  ASSERT_OK_AND_ASSIGN(const std::vector<FileInfo> many, fs_->List("s3://data/many/"));
  EXPECT_EQ(many.size(), 1010u);

  // It verifies signatures: a wrong secret is refused, and not repeated to anybody.
  AwsSettings wrong = settings_;
  wrong.credentials->secret_access_key = "wrong-secret";
  RemoteFileSystem stranger(wrong);
  EXPECT_THAT(stranger.List("s3://data/train"),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("SignatureDoesNotMatch"), Not(HasSubstr("wrong-secret")))));
}

}  // namespace
}  // namespace muster::testing
