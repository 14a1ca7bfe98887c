// The client against servers that are slow, broken or lie. Real sockets; what is waited between
// attempts is only counted.
#include "common/object_store/remote_file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>

#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/common/object_store/scripted_server.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const char kEtag[] = "\"one\"";

std::string Bytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 13);
  return bytes;
}

class RemoteFileSystemTest : public ::testing::Test {
 protected:
  RemoteFileSystemTest() { ::setenv("no_proxy", "127.0.0.1", 1); }

  RemoteOptions Options() {
    RemoteOptions options;
    options.clock = &clock_;
    options.sleep = [this](absl::Duration duration) {
      ++sleeps_;
      clock_.Advance(duration);
    };
    options.jitter_seed = 1;
    options.http.low_speed_time = absl::Seconds(1);
    return options;
  }
  AwsSettings S3At(const ScriptedServer& server) {
    AwsSettings settings;
    settings.endpoint = server.Url("");
    settings.credentials = AwsCredentials{"AKEXAMPLE", "hunter2", "sessiontoken3"};
    return settings;
  }
  static absl::StatusOr<std::string> Read(FileSystem& fs, const std::string& path, uint64_t offset,
                                          uint64_t bytes) {
    std::string buffer(bytes, '\0');
    const absl::StatusOr<uint64_t> got = fs.ReadAt(path, offset, buffer.data(), bytes);
    if (!got.ok()) return got.status();
    buffer.resize(*got);
    return buffer;
  }
  // Answers the first `failures` requests by `fail`, the others right.
  ScriptedServer::Script FailFirst(int failures, ScriptedServer::Script fail) {
    return [this, failures, fail](const ServerRequest& request, ScriptedServer::Answer& answer) {
      if (count_++ < failures) return fail(request, answer);
      ServeObject(object_, kEtag, request, answer);
    };
  }

  SimulatedClock clock_;
  std::atomic<int> sleeps_ = 0;
  std::atomic<int> count_ = 0;
  const std::string object_ = Bytes(100'000);
};

// Those of STS end after some hours, and who renews them writes others to the file.
TEST_F(RemoteFileSystemTest, CredentialsThatAreRefusedAreReadAgain) {
  const TempDir home;
  const auto write = [&](const std::string& id) {
    std::ofstream(home / "credentials", std::ios::trunc)
        << "[default]\naws_access_key_id = " << id
        << "\naws_secret_access_key = secret\naws_session_token = token-of-" << id << "\n";
  };
  write("OLD");
  std::atomic<bool> has_ended = false;
  ScriptedServer server([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    const bool is_old = absl::StrContains(request.header("authorization"), "Credential=OLD/");
    EXPECT_EQ(request.header("x-amz-security-token"), is_old ? "token-of-OLD" : "token-of-NEW");
    if (is_old && has_ended) {
      return answer.Reply(request.method == "HEAD" ? 400 : 403, {},
                          "<Error><Code>ExpiredToken</Code></Error>", request.method != "HEAD");
    }
    ServeObject(object_, kEtag, request, answer);
  });
  const auto environment = [&](const char* name) -> std::string {
    if (std::string(name) == "AWS_SHARED_CREDENTIALS_FILE") return home / "credentials";
    return std::string(name) == "AWS_ENDPOINT_URL" ? server.Url("") : "";
  };
  ASSERT_OK_AND_ASSIGN(AwsSettings settings, LoadAwsSettings(environment, PosixFileSystem()));
  RemoteFileSystem fs(std::move(settings), Options());
  EXPECT_OK(Read(fs, "s3://bucket/key", 0, 10));
  has_ended = true;
  // As long as there are no others it is an error, at once.
  EXPECT_THAT(Read(fs, "s3://bucket/key", 0, 10),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("ExpiredToken")));
  EXPECT_EQ(sleeps_, 0);
  write("NEW");
  EXPECT_OK(Read(fs, "s3://bucket/key", 0, 10));
  EXPECT_OK(fs.Exists("s3://bucket/other"));
}

TEST_F(RemoteFileSystemTest, ReadsRangesSizesAndWholeFiles) {
  ScriptedServer server(FailFirst(0, nullptr));
  RemoteFileSystem fs({}, Options());
  const std::string path = server.Url("/a b.tar");
  ASSERT_OK_AND_ASSIGN(const std::string range, Read(fs, path, 1000, 500));
  EXPECT_EQ(range, object_.substr(1000, 500));
  ASSERT_OK_AND_ASSIGN(const uint64_t size, fs.FileSize(path));
  EXPECT_EQ(size, object_.size());
  ASSERT_OK_AND_ASSIGN(const std::string tail, Read(fs, path, 99'990, 500));
  EXPECT_EQ(tail, object_.substr(99'990));
  ASSERT_OK_AND_ASSIGN(const std::string behind, Read(fs, path, 100'000, 5));
  EXPECT_EQ(behind, "");
  ASSERT_OK_AND_ASSIGN(const std::string whole, fs.ReadFile(path, 100'000));
  EXPECT_EQ(whole, object_);
  EXPECT_THAT(fs.ReadFile(path, 99'999),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("99999 allowed")));
  EXPECT_THAT(fs.Exists(path), IsOk());
  EXPECT_EQ(server.requests()[0].target, "/a%20b.tar");
  EXPECT_EQ(server.connections(), 1);
  EXPECT_EQ(fs.connections(), 1u);
}

TEST_F(RemoteFileSystemTest, AQueryIsKeptForWhatBelongsToItsUrl) {
  ScriptedServer server(FailFirst(0, nullptr));
  RemoteFileSystem fs({}, Options());
  const auto keep = [&](const std::string& target) {
    return fs.KeepQuery(server.Url(target)).value_or("");
  };
  EXPECT_EQ(keep("/a/x.parquet?sig=1&se=2%3A"), server.Url("/a/x.parquet"));
  EXPECT_EQ(keep("/a/y.parquet?sig=3"), server.Url("/a/y.parquet"));
  EXPECT_EQ(keep("/b/train-{0..9}.tar?sig=4"), server.Url("/b/train-{0..9}.tar"));
  EXPECT_EQ(keep("/c/plain.tar"), server.Url("/c/plain.tar"));
  EXPECT_EQ(keep("/d/train-?.tar"), server.Url("/d/train-?.tar"));
  EXPECT_EQ(keep("?sig=5"), server.Url(""));
  EXPECT_EQ(*fs.KeepQuery("s3://bucket/a?b=c"), "s3://bucket/a?b=c");
  EXPECT_THAT(fs.KeepQuery(server.Url("/a/x.parquet?sig=6")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(server.Url("/a/x.parquet")), Not(HasSubstr("sig")))));
  for (const auto& [path, target] :
       {std::pair("/a/x.parquet", "/a/x.parquet?sig=1&se=2%3A"),
        std::pair("/a/y.parquet", "/a/y.parquet?sig=3"),
        std::pair("/a/classes.txt", "/a/classes.txt?sig=1&se=2%3A"),
        std::pair("/b/deep/0.tar", "/b/deep/0.tar?sig=4"),
        std::pair("/c/plain.idx", "/c/plain.idx"), std::pair("/e", "/e?sig=5"),
        std::pair("/a/z?own", "/a/z?own")}) {
    EXPECT_OK(Read(fs, server.Url(path), 0, 5));
    EXPECT_EQ(server.requests().back().target, target);
  }
  ScriptedServer stranger(FailFirst(0, nullptr));
  EXPECT_OK(Read(fs, stranger.Url("/a/x.parquet"), 0, 5));
  EXPECT_EQ(stranger.requests().back().target, "/a/x.parquet");
}

TEST_F(RemoteFileSystemTest, BehindTheEndOfAFileNeverReadIsNothing) {
  ScriptedServer server(FailFirst(0, nullptr));
  RemoteFileSystem fs({}, Options());
  ASSERT_OK_AND_ASSIGN(const std::string behind, Read(fs, server.Url("/x"), 200'000, 5));
  EXPECT_EQ(behind, "");
  ASSERT_OK_AND_ASSIGN(const std::string range, Read(fs, server.Url("/x"), 0, 5));
  EXPECT_EQ(range, object_.substr(0, 5));
}

TEST_F(RemoteFileSystemTest, AnEmptyFileIsRead) {
  ScriptedServer server([](const ServerRequest& request, ScriptedServer::Answer& answer) {
    ServeObject("", kEtag, request, answer);
  });
  RemoteFileSystem fs({}, Options());
  ASSERT_OK_AND_ASSIGN(const std::string some, Read(fs, server.Url("/x"), 0, 5));
  EXPECT_EQ(some, "");
  ASSERT_OK_AND_ASSIGN(const uint64_t size, fs.FileSize(server.Url("/x?signed=1")));
  EXPECT_EQ(size, 0u);
}

TEST_F(RemoteFileSystemTest, ThreadsShareAPoolOfConnections) {
  ScriptedServer server(FailFirst(0, nullptr));
  RemoteFileSystem fs({}, Options());
  for (int round = 0; round < 4; ++round) {
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t i = 0; i < 20; ++i) {
          const auto got = Read(fs, server.Url("/x"), 1000 * t + i, 900);
          EXPECT_OK(got);
          EXPECT_TRUE(got.ok() && *got == object_.substr(1000 * t + i, 900));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_LE(server.connections(), 8);
  EXPECT_EQ(server.requests().size(), 640u);
}

TEST_F(RemoteFileSystemTest, WhatMayPassIsRepeated) {
  for (const int code : {429, 500, 502, 503, 504}) {
    count_ = 0;
    sleeps_ = 0;
    ScriptedServer server(FailFirst(3, [&](const ServerRequest&, ScriptedServer::Answer& answer) {
      answer.Reply(code, {}, "busy");
    }));
    RemoteFileSystem fs({}, Options());
    ASSERT_OK_AND_ASSIGN(const std::string range, Read(fs, server.Url("/x"), 7, 5));
    EXPECT_EQ(range, object_.substr(7, 5));
    EXPECT_EQ(sleeps_, 3);
    EXPECT_EQ(server.connections(), 1) << "an error costs no connection";
  }
}

// As while a server is started again: nothing but the time of the operation ends it.
TEST_F(RemoteFileSystemTest, AServerMayBeAwayForMinutes) {
  const absl::Duration begin = clock_.SinceBoot();
  ScriptedServer server([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    if (clock_.SinceBoot() - begin < absl::Minutes(3)) return answer.Reply(503, {}, "starting");
    ServeObject(object_, kEtag, request, answer);
  });
  RemoteFileSystem fs({}, Options());
  ASSERT_OK_AND_ASSIGN(const std::string range, Read(fs, server.Url("/x"), 7, 5));
  EXPECT_EQ(range, object_.substr(7, 5));
}

TEST_F(RemoteFileSystemTest, WhatIsGivenUpSaysWhatTheServerSaid) {
  ScriptedServer server(FailFirst(1000, [](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(503, {}, "Slow\r\n\tdown\x01 <please>");
  }));
  RemoteFileSystem fs({}, Options());
  const auto read = Read(fs, server.Url("/x?token=hunter2"), 0, 5);
  EXPECT_THAT(read,
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("GET " + server.Url("/x") + ": HTTP 503 Slow down <please>"),
                             HasSubstr(absl::StrCat("given up after ", count_.load(), " attempts")),
                             Not(HasSubstr("hunter2")))));
  EXPECT_GT(count_, 20) << "four minutes, and ten seconds between two attempts at most";
}

TEST_F(RemoteFileSystemTest, TheTimeOfAnOperationIsBounded) {
  ScriptedServer server(FailFirst(1000, [](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(503, {{"Retry-After", "3600"}}, "");
  }));
  RemoteOptions options = Options();
  options.retry.operation_deadline = absl::Seconds(35);
  RemoteFileSystem fs({}, options);
  EXPECT_THAT(Read(fs, server.Url("/x"), 0, 5),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("35s")));
  EXPECT_EQ(server.requests().size(), 4u) << "a wait of 10 s each: the longest";
}

// An address that somebody mistyped, where nothing listens.
TEST_F(RemoteFileSystemTest, WhatHasNeverAnsweredIsGivenUpSooner) {
  const std::string url =
      ScriptedServer([](const ServerRequest&, ScriptedServer::Answer&) {}).Url("/x");
  RemoteOptions options = Options();
  options.retry.unanswered_deadline = absl::Seconds(10);
  RemoteFileSystem fs({}, options);
  const absl::Duration begin = clock_.SinceBoot();
  EXPECT_THAT(Read(fs, url, 0, 5),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr(url), HasSubstr("nothing has answered for 10s"))));
  EXPECT_LE(clock_.SinceBoot() - begin, absl::Seconds(10));
}

TEST_F(RemoteFileSystemTest, AServerThatIsThereMayBeAwayForMinutesAfterItsFirstWord) {
  for (const bool is_up_first : {true, false}) {
    count_ = 0;
    std::atomic<bool> is_down = !is_up_first;
    ScriptedServer server([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
      // By its second refusal nobody doubts that it is the right one.
      if (is_down && count_++ > 1) return answer.Reset();
      if (is_down) return answer.Reply(503, {}, "starting");
      ServeObject(object_, kEtag, request, answer);
    });
    RemoteOptions options = Options();
    options.retry.unanswered_deadline = absl::Seconds(10);
    const absl::Duration begin = clock_.SinceBoot();
    options.sleep = [&](absl::Duration duration) {
      clock_.Advance(duration);
      if (clock_.SinceBoot() - begin > absl::Minutes(3)) is_down = false;
    };
    RemoteFileSystem fs({}, options);
    if (is_up_first) {
      ASSERT_OK(Read(fs, server.Url("/x"), 0, 5));
      is_down = true;
    }
    ASSERT_OK_AND_ASSIGN(const std::string range, Read(fs, server.Url("/x"), 7, 5));
    EXPECT_EQ(range, object_.substr(7, 5));
    EXPECT_GT(clock_.SinceBoot() - begin, absl::Minutes(3));
  }
}

// Nothing but Cancel ends these waits while a test has patience.
RemoteOptions WithoutEnd() {
  RemoteOptions options;
  options.retry = {.first_delay = absl::Hours(1),
                   .max_delay = absl::Hours(1),
                   .request_deadline = absl::Hours(100),
                   .operation_deadline = absl::Hours(100)};
  options.http.low_speed_time = absl::Hours(100);
  return options;
}

TEST_F(RemoteFileSystemTest, CancelEndsAWaitBetweenAttempts) {
  ScriptedServer server(
      [](const ServerRequest&, ScriptedServer::Answer& answer) { answer.Reply(503, {}, "down"); });
  RemoteFileSystem fs({}, WithoutEnd());
  EXPECT_EQ(fs.Trouble(), "");
  std::thread cancel([&] {
    while (fs.Trouble().empty()) std::this_thread::yield();
    fs.Cancel();
  });
  EXPECT_THAT(Read(fs, server.Url("/x"), 0, 5),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr(server.Url("/x"))));
  cancel.join();
  EXPECT_THAT(fs.Trouble(), HasSubstr("GET " + server.Url("/x") + ": HTTP 503 down"));
  EXPECT_THAT(Read(fs, server.Url("/x"), 0, 5), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(RemoteFileSystemTest, CancelEndsATransferThatStalls) {
  std::atomic<bool> stalls = false;
  ScriptedServer server([&](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Send("HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\n\r\nab");
    stalls = true;
    answer.Stall();
  });
  RemoteFileSystem fs({}, WithoutEnd());
  std::thread cancel([&] {
    while (!stalls) std::this_thread::yield();
    fs.Cancel();
  });
  EXPECT_THAT(Read(fs, server.Url("/x"), 0, 5), StatusIs(absl::StatusCode::kCancelled));
  cancel.join();
}

TEST_F(RemoteFileSystemTest, ASuccessEndsTheTrouble) {
  ScriptedServer server(FailFirst(2, [](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(503, {}, "down");
  }));
  RemoteOptions options = Options();
  RemoteFileSystem* reading = nullptr;
  std::string during;
  options.sleep = [&](absl::Duration) { during = reading->Trouble(); };
  RemoteFileSystem fs({}, options);
  reading = &fs;
  EXPECT_OK(Read(fs, server.Url("/x"), 0, 5));
  EXPECT_THAT(during, HasSubstr("HTTP 503 down"));
  EXPECT_EQ(fs.Trouble(), "");
}

TEST_F(RemoteFileSystemTest, WhatCannotPassIsNotRepeated) {
  const std::pair<int, absl::StatusCode> cases[] = {{401, absl::StatusCode::kPermissionDenied},
                                                    {403, absl::StatusCode::kPermissionDenied},
                                                    {404, absl::StatusCode::kNotFound},
                                                    {416, absl::StatusCode::kOutOfRange},
                                                    {400, absl::StatusCode::kFailedPrecondition}};
  for (const auto& [code, expected] : cases) {
    ScriptedServer server([&, code = code](const ServerRequest&, ScriptedServer::Answer& answer) {
      answer.Reply(code, {}, "no");
    });
    RemoteFileSystem fs({}, Options());
    EXPECT_THAT(Read(fs, server.Url("/x"), 0, 5),
                StatusIs(expected, HasSubstr(absl::StrCat("HTTP ", code))));
    EXPECT_EQ(server.requests().size(), 1u);
  }
  EXPECT_EQ(sleeps_, 0);
}

TEST_F(RemoteFileSystemTest, AResetInTheMiddleOfABodyIsRepeated) {
  ScriptedServer server(FailFirst(2, [&](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(
        206, {{"Content-Range", "bytes 0-999/100000"}, {"ETag", kEtag}, {"Content-Length", "1000"}},
        object_.substr(0, 400));
    answer.Reset();
  }));
  RemoteFileSystem fs({}, Options());
  ASSERT_OK_AND_ASSIGN(const std::string range, Read(fs, server.Url("/x"), 0, 1000));
  EXPECT_EQ(range, object_.substr(0, 1000));
  EXPECT_EQ(sleeps_, 2);
}

TEST_F(RemoteFileSystemTest, ABodyThatEndsEarlyIsRepeated) {
  ScriptedServer server(FailFirst(1, [&](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(
        206, {{"Content-Range", "bytes 0-999/100000"}, {"ETag", kEtag}, {"Content-Length", "1000"}},
        object_.substr(0, 400));
    answer.Close();
  }));
  RemoteFileSystem fs({}, Options());
  ASSERT_OK_AND_ASSIGN(const std::string range, Read(fs, server.Url("/x"), 0, 1000));
  EXPECT_EQ(range, object_.substr(0, 1000));
}

// A line that is too slow for a whole piece: what has come is kept, so that all of it comes.
TEST_F(RemoteFileSystemTest, ABodyOfWhichMuchHasComeIsGoneOnWith) {
  constexpr size_t kSent = 40'000;
  for (const bool stalls : {false, true}) {
    ScriptedServer server([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
      size_t offset = 0;
      EXPECT_EQ(::sscanf(request.header("range").c_str(), "bytes=%zu-", &offset), 1);
      answer.Reply(206,
                   {{"Content-Range", absl::StrCat("bytes ", offset, "-99999/100000")},
                    {"ETag", kEtag},
                    {"Content-Length", absl::StrCat(100'000 - offset)}},
                   object_.substr(offset, kSent));
      if (object_.size() - offset <= kSent) return;
      if (stalls) return answer.Stall();
      answer.Close();
    });
    RemoteOptions options = Options();
    if (stalls) options.retry.request_deadline = absl::Milliseconds(500);
    RemoteFileSystem fs({}, options);
    ASSERT_OK_AND_ASSIGN(const std::string whole, Read(fs, server.Url("/x"), 0, 100'000));
    EXPECT_EQ(whole, object_);
    if (stalls) continue;  // as often as its machine is slow
    EXPECT_EQ(server.requests().size(), 3u);
    EXPECT_EQ(sleeps_, 0);
    EXPECT_EQ(server.requests()[2].header("range"), "bytes=80000-99999");
    EXPECT_EQ(server.requests()[2].header("if-match"), kEtag);
  }
}

TEST_F(RemoteFileSystemTest, AWholeAnswerThatBreaksOffIsNotTakenForTheFile) {
  ScriptedServer server(FailFirst(1, [&](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(200, {{"ETag", kEtag}, {"Content-Length", "100000"}}, object_.substr(0, 50'000));
    answer.Close();
  }));
  RemoteFileSystem fs({}, Options());
  ASSERT_OK_AND_ASSIGN(const std::string whole, Read(fs, server.Url("/x"), 0, 100'000));
  EXPECT_EQ(whole, object_);
}

TEST_F(RemoteFileSystemTest, ALengthThatIsTooShortIsNotBelieved) {
  ScriptedServer server(FailFirst(1, [&](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(
        206, {{"Content-Range", "bytes 0-999/100000"}, {"ETag", kEtag}, {"Content-Length", "400"}},
        object_.substr(0, 1000));
    answer.Close();
  }));
  RemoteFileSystem fs({}, Options());
  ASSERT_OK_AND_ASSIGN(const std::string range, Read(fs, server.Url("/x"), 0, 1000));
  EXPECT_EQ(range, object_.substr(0, 1000));
}

TEST_F(RemoteFileSystemTest, WhatIsNoHttpIsRepeated) {
  // As behind an answer on the same connection that had more bytes than it said.
  std::atomic<int> requests = 0;
  ScriptedServer server([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    const int number = requests++;
    if (number == 1) {
      answer.Send(object_.substr(0, 600));
      return answer.Close();
    }
    ServeObject(object_, kEtag, request, answer);
  });
  RemoteFileSystem fs({}, Options());
  EXPECT_OK(Read(fs, server.Url("/x"), 0, 5));
  ASSERT_OK_AND_ASSIGN(const std::string range, Read(fs, server.Url("/x"), 0, 1000));
  EXPECT_EQ(range, object_.substr(0, 1000));
  EXPECT_EQ(server.requests().size(), 3u);
}

TEST_F(RemoteFileSystemTest, ARedirectElsewhereIsNotFollowed) {
  ScriptedServer server([&](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(302, {{"Location", "file:///etc/passwd"}}, "");
  });
  RemoteFileSystem fs({}, Options());
  EXPECT_THAT(Read(fs, server.Url("/x"), 0, 5), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(RemoteFileSystemTest, AConnectionThatIsRefusedIsRepeatedAndThenSaid) {
  std::string url;
  {
    ScriptedServer gone(FailFirst(0, nullptr));
    url = gone.Url("/x");
  }
  RemoteFileSystem fs({}, Options());
  EXPECT_THAT(Read(fs, url, 0, 5),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("given up after")));
}

TEST_F(RemoteFileSystemTest, AServerThatStallsHoldsNobody) {
  ScriptedServer server(FailFirst(1, [&](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Send("HTTP/1.1 206 Partial\r\nContent-Length: 1000\r\n\r\nsome");
    answer.Stall();
  }));
  RemoteFileSystem fs({}, Options());
  ASSERT_OK_AND_ASSIGN(const std::string range, Read(fs, server.Url("/x"), 0, 1000));
  EXPECT_EQ(range, object_.substr(0, 1000));
  EXPECT_EQ(server.connections(), 2);
}

TEST_F(RemoteFileSystemTest, ARequestHasADeadline) {
  ScriptedServer server(
      [](const ServerRequest&, ScriptedServer::Answer& answer) { answer.Stall(); });
  RemoteOptions options = Options();
  options.http.low_speed_time = absl::Minutes(5);
  options.retry.request_deadline = absl::Milliseconds(50);
  options.retry.operation_deadline = absl::Seconds(1);
  RemoteFileSystem fs({}, options);
  EXPECT_THAT(Read(fs, server.Url("/x"), 0, 5),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("given up after"), Not(HasSubstr("after 1 attempts")))));
}

TEST_F(RemoteFileSystemTest, TheWholeObjectForARangeIsCaughtBeforeItHasCome) {
  const std::string large = Bytes(64 << 20);
  ScriptedServer server([&](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(200, {{"ETag", kEtag}}, large);
  });
  for (const uint64_t offset : {0, 1000}) {
    RemoteFileSystem fs({}, Options());
    EXPECT_THAT(Read(fs, server.Url("/x"), offset, 5),
                StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("ignores ranges")));
  }
  EXPECT_EQ(server.requests().size(), 2u);
  EXPECT_LT(server.body_bytes(), large.size()) << "what the sockets hold, twice";
}

TEST_F(RemoteFileSystemTest, TheWholeObjectIsTakenWhereItIsWhatWasAskedFor) {
  ScriptedServer server([&](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(200, {{"ETag", kEtag}}, "short");
  });
  RemoteFileSystem fs({}, Options());
  ASSERT_OK_AND_ASSIGN(const std::string whole, Read(fs, server.Url("/x"), 0, 100));
  EXPECT_EQ(whole, "short");
}

TEST_F(RemoteFileSystemTest, ARangeThatIsAnotherIsCaught) {
  for (const char* range :
       {"bytes 1-5/100", "bytes 0-5/100", "bytes 0-4/*", "bytes 5-9/100", "nonsense", ""}) {
    ScriptedServer server([&](const ServerRequest&, ScriptedServer::Answer& answer) {
      answer.Reply(206, {{"Content-Range", range}, {"ETag", kEtag}}, "abcde");
    });
    RemoteFileSystem fs({}, Options());
    EXPECT_THAT(Read(fs, server.Url("/x"), 0, 5), StatusIs(absl::StatusCode::kDataLoss)) << range;
    EXPECT_EQ(server.requests().size(), 1u);
  }
}

TEST_F(RemoteFileSystemTest, ASizeFromElsewhereIsNotAllocated) {
  ScriptedServer server([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    if (request.method == "HEAD") {
      return answer.Reply(200, {{"Content-Length", "9000000000000000000"}, {"ETag", kEtag}}, "",
                          false);
    }
    answer.Reply(206, {{"Content-Range", "bytes 0-4/5"}, {"ETag", kEtag}}, "abcde");
  });
  RemoteFileSystem fs({}, Options());
  EXPECT_THAT(fs.ReadFile(server.Url("/x"), ~uint64_t{0}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("replaced")));
}

TEST_F(RemoteFileSystemTest, AnObjectThatIsReplacedIsNeverMixed) {
  std::atomic<bool> is_new = false;
  const std::string other = Bytes(100'001);
  ScriptedServer server([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    ServeObject(is_new ? other : object_, is_new ? "\"two\"" : kEtag, request, answer);
  });
  RemoteFileSystem fs({}, Options());
  EXPECT_OK(Read(fs, server.Url("/x"), 0, 5));
  is_new = true;
  EXPECT_THAT(Read(fs, server.Url("/x"), 5, 5),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(server.Url("/x")), HasSubstr("replaced"))));
  EXPECT_EQ(server.requests().back().header("if-match"), kEtag);
}

TEST_F(RemoteFileSystemTest, AnObjectThatIsReplacedIsCaughtWithoutIfMatch) {
  std::atomic<int> reads = 0;
  const auto serve = [&](const char* first_name, const char* first, const char* second) {
    return [&reads, first_name, first, second](const ServerRequest&,
                                               ScriptedServer::Answer& answer) {
      answer.Reply(
          206, {{"Content-Range", "bytes 0-4/100"}, {first_name, reads++ == 0 ? first : second}},
          "abcde");
    };
  };
  const std::vector<std::vector<const char*>> cases = {
      {"ETag", "\"1\"", "\"2\""},
      {"ETag", "W/\"1\"", "W/\"2\""},
      {"Last-Modified", "Fri, 24 May 2013 00:00:00 GMT", "Fri, 24 May 2013 00:00:01 GMT"}};
  for (const auto& values : cases) {
    reads = 0;
    ScriptedServer server(serve(values[0], values[1], values[2]));
    RemoteFileSystem fs({}, Options());
    EXPECT_OK(Read(fs, server.Url("/x"), 0, 5));
    EXPECT_THAT(Read(fs, server.Url("/x"), 0, 5),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("replaced")));
  }
}

TEST_F(RemoteFileSystemTest, AServerThatComparesNeedNotRepeatTheEtag) {
  std::atomic<int> reads = 0;
  ScriptedServer server([&](const ServerRequest&, ScriptedServer::Answer& answer) {
    std::map<std::string, std::string> headers = {{"Content-Range", "bytes 0-4/100"}};
    if (reads++ == 0) headers["ETag"] = kEtag;
    answer.Reply(206, headers, "abcde");
  });
  RemoteFileSystem fs({}, Options());
  EXPECT_OK(Read(fs, server.Url("/x"), 0, 5));
  EXPECT_OK(Read(fs, server.Url("/x"), 0, 5));
}

TEST_F(RemoteFileSystemTest, ALongReadIsManyRequests) {
  const std::string large = Bytes((20 << 20) + 5);
  ScriptedServer server([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    ServeObject(large, kEtag, request, answer);
  });
  RemoteFileSystem fs({}, Options());
  ASSERT_OK_AND_ASSIGN(const std::string read, Read(fs, server.Url("/x"), 0, 30 << 20));
  EXPECT_TRUE(read == large);
  EXPECT_EQ(server.requests().size(), 3u);
  EXPECT_EQ(server.body_bytes(), large.size());
}

TEST_F(RemoteFileSystemTest, AProxyOfTheEnvironmentIsAsked) {
  ScriptedServer server(FailFirst(0, nullptr));
  ::setenv("http_proxy", server.Url("").c_str(), 1);
  RemoteFileSystem fs({}, Options());
  const auto read = Read(fs, "http://data.invalid/x", 3, 5);
  ::unsetenv("http_proxy");
  ASSERT_OK(read);
  EXPECT_EQ(*read, object_.substr(3, 5));
  EXPECT_EQ(server.requests()[0].target, "http://data.invalid/x");
}

TEST_F(RemoteFileSystemTest, TheVersionOfAnObjectNamesWhoseS3ItIs) {
  ScriptedServer server(FailFirst(0, nullptr));
  RemoteFileSystem fs(S3At(server), Options());
  ASSERT_OK_AND_ASSIGN(const FileVersion version, fs.Version("s3://data/x"));
  EXPECT_THAT(version.tag, AllOf(HasSubstr(kEtag), HasSubstr(server.address())));
}

TEST_F(RemoteFileSystemTest, AVersionIsHeldTo) {
  ScriptedServer server(FailFirst(0, nullptr));
  RemoteFileSystem fs({}, Options());
  ASSERT_OK_AND_ASSIGN(FileVersion version, fs.Version(server.Url("/x")));
  EXPECT_EQ(version.tag, kEtag);
  EXPECT_EQ(version.size_bytes, object_.size());
  char byte = 0;
  EXPECT_OK(fs.ReadVersion(server.Url("/x"), version, 0, &byte, 1));
  version.tag = "\"other\"";
  EXPECT_THAT(fs.ReadVersion(server.Url("/x"), version, 0, &byte, 1),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(RemoteFileSystemTest, AServerWithoutHeadIsAskedForAByte) {
  ScriptedServer server([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    if (request.method == "HEAD") return answer.Reply(405, {}, "", false);
    ServeObject(object_, kEtag, request, answer);
  });
  RemoteFileSystem fs({}, Options());
  ASSERT_OK_AND_ASSIGN(const uint64_t size, fs.FileSize(server.Url("/x")));
  EXPECT_EQ(size, object_.size());
}

TEST_F(RemoteFileSystemTest, ASignedUrlIsOnlyRead) {
  ScriptedServer server([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    if (request.method == "HEAD") return answer.Reply(403, {}, "", false);
    ServeObject(object_, kEtag, request, answer);
  });
  RemoteFileSystem fs({}, Options());
  ASSERT_OK_AND_ASSIGN(const uint64_t size, fs.FileSize(server.Url("/x?X-Amz-Signature=1")));
  EXPECT_EQ(size, object_.size());
  EXPECT_EQ(server.requests()[0].target, "/x?X-Amz-Signature=1");
}

TEST_F(RemoteFileSystemTest, ARedirectIsFollowedAndARingIsNot) {
  ScriptedServer server([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    if (request.target == "/ring") return answer.Reply(302, {{"Location", "/ring"}}, "");
    if (request.target == "/old")
      return answer.Reply(302, {{"Location", "/new"}, {"ETag", "x"}}, "");
    ServeObject(object_, kEtag, request, answer);
  });
  RemoteFileSystem fs({}, Options());
  ASSERT_OK_AND_ASSIGN(const std::string range, Read(fs, server.Url("/old"), 3, 5));
  EXPECT_EQ(range, object_.substr(3, 5));
  EXPECT_THAT(Read(fs, server.Url("/ring"), 0, 5), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(RemoteFileSystemTest, AMillionHeadersAreNotKept) {
  ScriptedServer server([&](const ServerRequest&, ScriptedServer::Answer& answer) {
    std::string head =
        "HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-4/5\r\nContent-Length: 5\r\n";
    for (int i = 0; i < 2000; ++i)
      absl::StrAppend(&head, "X-", i, ": ", std::string(50, 'x'), "\r\n");
    answer.Send(head + "\r\nabcde");
  });
  RemoteFileSystem fs({}, Options());
  EXPECT_OK(Read(fs, server.Url("/x"), 0, 5));
}

TEST_F(RemoteFileSystemTest, RequestsToS3AreSignedAndErrorsHoldNoSecret) {
  ScriptedServer server([&](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(403, {},
                 "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>"
                 "<Message>Not for you.</Message></Error>");
  });
  RemoteFileSystem fs(S3At(server), Options());
  EXPECT_THAT(Read(fs, "s3://data/a b+c", 0, 5),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("/data/a%20b%2Bc: HTTP 403 AccessDenied: Not for you."),
                             HasSubstr("let this access key"), Not(HasSubstr("hunter2")),
                             Not(HasSubstr("sessiontoken3")))));
  const ServerRequest request = server.requests()[0];
  EXPECT_EQ(request.target, "/data/a%20b%2Bc");
  EXPECT_THAT(request.header("authorization"),
              AllOf(HasSubstr("Credential=AKEXAMPLE/20231114/us-east-1/s3/aws4_request"),
                    HasSubstr("SignedHeaders=host;range;x-amz-content-sha256;x-amz-date;"
                              "x-amz-security-token"),
                    Not(HasSubstr("hunter2"))));
  EXPECT_EQ(request.header("x-amz-security-token"), "sessiontoken3");
  EXPECT_EQ(request.header("x-amz-date"), "20231114T221320Z");
}

TEST_F(RemoteFileSystemTest, AnonymousRequestsAreNotSignedAndSayHow) {
  ScriptedServer server(
      [&](const ServerRequest&, ScriptedServer::Answer& answer) { answer.Reply(403, {}, ""); });
  AwsSettings settings = S3At(server);
  settings.credentials.reset();
  RemoteFileSystem fs(settings, Options());
  EXPECT_THAT(Read(fs, "s3://data/a", 0, 5),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("AWS_ACCESS_KEY_ID")));
  EXPECT_EQ(server.requests()[0].header("authorization"), "");
}

TEST_F(RemoteFileSystemTest, ABucketElsewhereNamesItsRegion) {
  ScriptedServer server([&](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(301, {{"x-amz-bucket-region", "eu-west-3"}, {"Location", "/elsewhere"}},
                 "<Error><Code>PermanentRedirect</Code></Error>");
  });
  RemoteFileSystem fs(S3At(server), Options());
  EXPECT_THAT(Read(fs, "s3://data/a", 0, 5),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("eu-west-3")));
  EXPECT_EQ(server.requests().size(), 1u) << "what is signed follows no redirect";
}

TEST_F(RemoteFileSystemTest, AListGoesOnOverItsPages) {
  ScriptedServer server([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    const bool is_first = !absl::StrContains(request.target, "continuation-token=");
    answer.Reply(200, {},
                 absl::StrCat("<ListBucketResult>",
                              is_first ? "<IsTruncated>true</IsTruncated>"
                                         "<NextContinuationToken>a/+=</NextContinuationToken>"
                                         "<Contents><Key>d/</Key><Size>0</Size></Contents>"
                                         "<Contents><Key>d/z</Key><Size>3</Size></Contents>"
                                       : "<Contents><Key>d/b</Key><Size>4</Size></Contents>"
                                         "<CommonPrefixes><Prefix>d/e/</Prefix></CommonPrefixes>",
                              "</ListBucketResult>"));
  });
  RemoteFileSystem fs(S3At(server), Options());
  ASSERT_OK_AND_ASSIGN(const std::vector<FileInfo> files, fs.List("s3://data/d"));
  ASSERT_THAT(files, SizeIs(3));
  EXPECT_EQ(files[0].name, "b");
  EXPECT_EQ(files[0].size_bytes, 4u);
  EXPECT_EQ(files[1].name, "e");
  EXPECT_TRUE(files[1].is_directory);
  EXPECT_EQ(files[2].name, "z");
  EXPECT_THAT(server.requests()[0].target,
              AllOf(HasSubstr("/data/?delimiter=%2F"), HasSubstr("prefix=d%2F")));
  EXPECT_THAT(server.requests()[1].target, HasSubstr("continuation-token=a%2F%2B%3D"));
}

TEST_F(RemoteFileSystemTest, AListThatGoesInACircleEnds) {
  ScriptedServer server([&](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(200, {},
                 "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t"
                 "</NextContinuationToken><Contents><Key>d/z</Key><Size>3</Size></Contents>"
                 "</ListBucketResult>");
  });
  RemoteFileSystem fs(S3At(server), Options());
  EXPECT_THAT(fs.List("s3://data/d"), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST_F(RemoteFileSystemTest, AFolderWithoutKeysIsNotThere) {
  ScriptedServer server([&](const ServerRequest& request, ScriptedServer::Answer& answer) {
    if (request.method == "HEAD") return answer.Reply(404, {}, "", false);
    answer.Reply(200, {}, "<ListBucketResult></ListBucketResult>");
  });
  RemoteFileSystem fs(S3At(server), Options());
  EXPECT_THAT(fs.List("s3://data/d"), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_OK_AND_ASSIGN(const std::vector<FileInfo> bucket, fs.List("s3://data"));
  EXPECT_THAT(bucket, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const bool exists, fs.Exists("s3://data/d"));
  EXPECT_FALSE(exists);
}

TEST_F(RemoteFileSystemTest, APageForPeopleIsNoList) {
  ScriptedServer server([&](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(200, {{"Content-Type", "text/html"}}, "<a href='x'>x</a>");
  });
  RemoteFileSystem fs({}, Options());
  EXPECT_THAT(fs.List(server.Url("/d")),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("autoindex_format json")));
  EXPECT_EQ(server.requests()[0].target, "/d/");
}

TEST_F(RemoteFileSystemTest, WhatCannotBeDoneSaysSo) {
  RemoteFileSystem fs({}, Options());
  constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
  EXPECT_THAT(fs.CreateExclusive("http://127.0.0.1:1/x").status(), StatusIs(kUnimplemented));
  EXPECT_THAT(fs.RemoveFile("http://127.0.0.1:1/x"), StatusIs(kUnimplemented));
  EXPECT_THAT(fs.MakeDirectories("http://127.0.0.1:1/x"), StatusIs(kUnimplemented));
  EXPECT_THAT(fs.Rename("s3://data/a", "s3://data/b"),
              StatusIs(kUnimplemented, HasSubstr("atomic")));
  EXPECT_THAT(fs.RemoveTree("s3://data/a"), StatusIs(kUnimplemented));
  EXPECT_OK(fs.MakeDirectories("s3://data/a"));
  EXPECT_THAT(fs.FileSize("/data/x"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(fs.FileSize("s3://data"), StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace muster::testing
