// Uploads to an S3 in memory that loses answers, knows conditions or does not.
#include "common/object_store/s3_upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/object_store/remote_file_system.h"
#include "tests/common/object_store/scripted_server.h"
#include "tests/support/status_matchers.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;

class S3UploadTest : public ::testing::Test {
 protected:
  S3UploadTest()
      : server_([this](const ServerRequest& request, ScriptedServer::Answer& answer) {
          Serve(request, answer);
        }) {
    ::setenv("no_proxy", "127.0.0.1", 1);
    AwsSettings settings;
    settings.endpoint = server_.Url("");
    settings.credentials = AwsCredentials{"AK", "SK", ""};
    RemoteOptions options;
    options.sleep = [](absl::Duration) {};
    fs_ = std::make_unique<RemoteFileSystem>(settings, options);
  }

  void Serve(const ServerRequest& request, ScriptedServer::Answer& answer) {
    const std::string key = request.target.substr(0, request.target.find('?'));
    const bool refuses = request.header("if-none-match") == "*" && knows_conditions_;
    const auto reply = [&](int code, std::map<std::string, std::string> headers,
                           const std::string& body) {
      // The work is done, and nobody hears of it.
      if (lose_answers_ > 0 && request.method != "HEAD") {
        --lose_answers_;
        return answer.Reset();
      }
      answer.Reply(code, headers, body);
    };
    if (request.header("if-none-match") == "*" && !knows_conditions_) {
      return answer.Reply(501, {}, "<Error><Code>NotImplemented</Code></Error>");
    }
    if (request.method == "HEAD") {
      if (!objects_.contains(key)) return answer.Reply(404, {}, "", false);
      return answer.Reply(200,
                          {{"Content-Length", absl::StrCat(objects_[key].size())},
                           {"ETag", "\"x\""},
                           {"x-amz-meta-muster-upload", ids_[key]}},
                          "", false);
    }
    if (request.method == "POST" && absl::EndsWith(request.target, "?uploads=")) {
      pending_id_ = request.header("x-amz-meta-muster-upload");
      parts_.clear();
      return reply(200, {},
                   "<InitiateMultipartUploadResult><UploadId>U1</UploadId>"
                   "</InitiateMultipartUploadResult>");
    }
    if (request.method == "PUT" && absl::StrContains(request.target, "partNumber=")) {
      parts_.push_back(request.body);
      return reply(200, {{"ETag", absl::StrCat("\"p", parts_.size(), "\"")}}, "");
    }
    if (request.method == "DELETE" && absl::StrContains(request.target, "uploadId=")) {
      ++aborts_;
      return reply(204, {}, "");
    }
    if (refuses && objects_.contains(key)) {
      return reply(412, {}, "<Error><Code>PreconditionFailed</Code></Error>");
    }
    std::string body = request.body;
    if (request.method == "POST") {
      completion_ = request.body;
      body.clear();
      for (const std::string& part : parts_) body += part;
      ids_[key] = pending_id_;
      if (error_in_body_-- > 0) {
        return reply(200, {}, "\n\n<Error><Code>InternalError</Code></Error>");
      }
    } else {
      ids_[key] = request.header("x-amz-meta-muster-upload");
    }
    objects_[key] = body;
    reply(200, {{"ETag", "\"x\""}}, "<CompleteMultipartUploadResult/>");
  }

  absl::Status Write(const std::string& path, const std::string& bytes) {
    absl::StatusOr<std::unique_ptr<WritableFile>> file = fs_->CreateExclusive(path);
    if (!file.ok()) return file.status();
    for (size_t at = 0; at < bytes.size(); at += 5 << 20) {
      const absl::Status status = (*file)->Append(absl::string_view(bytes).substr(at, 5 << 20));
      if (!status.ok()) return status;
    }
    return (*file)->Close();
  }

  bool knows_conditions_ = true;
  int lose_answers_ = 0;
  int error_in_body_ = 0;
  int aborts_ = 0;
  std::map<std::string, std::string> objects_;
  std::map<std::string, std::string> ids_;
  std::vector<std::string> parts_;
  std::string pending_id_;
  std::string completion_;
  ScriptedServer server_;
  std::unique_ptr<RemoteFileSystem> fs_;
};

TEST_F(S3UploadTest, ASmallFileGoesUpInOneRequestAtClose) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WritableFile> file,
                       fs_->CreateExclusive("s3://data/a"));
  ASSERT_OK(file->Append("one "));
  ASSERT_OK(file->Append("two"));
  ASSERT_OK(file->Sync());
  EXPECT_TRUE(objects_.empty());
  ASSERT_OK(file->Close());
  EXPECT_EQ(objects_["/data/a"], "one two");
  EXPECT_THAT(file->Append("x"), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(file->Close(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(S3UploadTest, AnEmptyFileIsOne) {
  ASSERT_OK(Write("s3://data/a", ""));
  EXPECT_TRUE(objects_.contains("/data/a"));
}

TEST_F(S3UploadTest, ALargeFileGoesUpInParts) {
  std::string bytes(20 << 20, 'x');
  bytes[9 << 20] = 'y';
  ASSERT_OK(Write("s3://data/a", bytes));
  EXPECT_EQ(parts_.size(), 3u);
  EXPECT_TRUE(objects_["/data/a"] == bytes);
  EXPECT_THAT(completion_, HasSubstr("<PartNumber>3</PartNumber><ETag>\"p3\"</ETag>"));
  EXPECT_EQ(aborts_, 0);
}

TEST_F(S3UploadTest, AFileThatIsThereIsRefusedAtOnceAndAtClose) {
  ASSERT_OK(Write("s3://data/a", "one"));
  EXPECT_THAT(Write("s3://data/a", "two"), StatusIs(absl::StatusCode::kAlreadyExists));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WritableFile> file,
                       fs_->CreateExclusive("s3://data/b"));
  ASSERT_OK(Write("s3://data/b", "first"));
  EXPECT_THAT(file->Close(), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_EQ(objects_["/data/b"], "first");
}

TEST_F(S3UploadTest, AnUploadWhoseAnswerWasLostIsItsOwn) {
  lose_answers_ = 1;
  ASSERT_OK(Write("s3://data/a", "one"));
  EXPECT_EQ(objects_["/data/a"], "one");
}

TEST_F(S3UploadTest, AServerWithoutConditionsIsWrittenAllTheSame) {
  knows_conditions_ = false;
  ASSERT_OK(Write("s3://data/a", "one"));
  ASSERT_OK(Write("s3://data/b", std::string(9 << 20, 'x')));
  EXPECT_EQ(objects_["/data/a"], "one");
}

TEST_F(S3UploadTest, AnErrorInAnAnswer200IsRepeated) {
  error_in_body_ = 2;
  ASSERT_OK(Write("s3://data/a", std::string(9 << 20, 'x')));
  EXPECT_EQ(objects_["/data/a"].size(), 9u << 20);
}

TEST_F(S3UploadTest, AFileThatIsNotClosedLeavesNothing) {
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WritableFile> file,
                         fs_->CreateExclusive("s3://data/a"));
    ASSERT_OK(file->Append(std::string(9 << 20, 'x')));
  }
  EXPECT_EQ(aborts_, 1);
  EXPECT_TRUE(objects_.empty());
}

TEST_F(S3UploadTest, RemovingAsksWhetherItIsThere) {
  EXPECT_THAT(fs_->RemoveFile("s3://data/a"), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace muster::testing
