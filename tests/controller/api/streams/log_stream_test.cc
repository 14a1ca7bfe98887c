#include "controller/api/streams/log_stream.h"

#include <atomic>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/controller/api/api_fixture.h"

namespace muster::controller {
namespace {

using ::testing::ElementsAre;

class LogStreamTest : public ApiFixture {
 protected:
  void SetUp() override {
    ApiFixture::SetUp();
    SetState(JobState::kRunning);
    request_.mutable_job()->set_id(1);
  }
  void SetState(JobState state) {
    engine_.Publish([&](Snapshot& s) { s.jobs.Put(1, MakeJob(1, "digits", state)); });
  }
  void Append(uint32_t rank, uint64_t offset, std::string text, uint32_t attempt = 1) {
    std::promise<absl::Status> stored;
    MetricsBatch batch;
    batch.logs.push_back({{1, attempt, 1, rank}, false, offset, std::move(text)});
    ingest_->Submit(std::move(batch), [&](const absl::Status& s) { stored.set_value(s); });
    ASSERT_OK(stored.get_future().get());
  }
  void Open() { reader_ = stub_->StreamLogs(&context_, request_); }
  // "attempt/rank@offset:text", with "(-n)" before the text where n bytes are missing.
  std::string Next() {
    v1::StreamLogsResponse response;
    if (!reader_->Read(&response)) return FromGrpc(reader_->Finish()).ToString();
    return absl::StrCat(
        response.attempt(), "/", response.rank(), "@", response.offset(), ":",
        response.lost_bytes() > 0 ? absl::StrCat("(-", response.lost_bytes(), ")") : "",
        response.text());
  }
  std::vector<std::string> All() {
    Open();
    std::vector<std::string> all;
    do {
      all.push_back(Next());
    } while (all.back() != "OK" && all.size() < 100);
    return all;
  }

  ApiFixture::Context context_;
  v1::StreamLogsRequest request_;
  std::unique_ptr<grpc::ClientReader<v1::StreamLogsResponse>> reader_;
};

TEST_F(LogStreamTest, WithoutFollowItSendsWhatIsThereAndEnds) {
  Append(0, 0, "one\ntw");
  Append(1, 0, "other\n");
  Append(0, 6, "o\nrest");
  EXPECT_THAT(All(),
              ElementsAre("1/0@0:one\n", "1/1@0:other\n", "1/0@4:two\n", "1/0@8:rest", "OK"));
}

TEST_F(LogStreamTest, AttemptsComeOldestFirstAndRanksAreChosen) {
  Append(0, 0, "second\n", 2);
  Append(0, 0, "first\n", 1);
  Append(1, 0, "other\n", 1);
  request_.set_rank(0);
  EXPECT_THAT(All(), ElementsAre("1/0@0:first\n", "2/0@0:second\n", "OK"));
}

TEST_F(LogStreamTest, OneAttemptOnly) {
  Append(0, 0, "first\n", 1);
  Append(0, 0, "second\n", 2);
  request_.set_attempt(2);
  EXPECT_THAT(All(), ElementsAre("2/0@0:second\n", "OK"));
}

TEST_F(LogStreamTest, TheTailBeginsAtALineOfEachRank) {
  Append(0, 0, "1\n2\n3\n");
  Append(1, 0, "a\nb\n");
  request_.set_tail(1);
  EXPECT_THAT(All(), ElementsAre("1/0@4:3\n", "1/1@2:b\n", "OK"));
}

TEST_F(LogStreamTest, LostBytesAreToldAndTheTornLineIsSent) {
  Append(0, 0, "be");
  Append(0, 10, "end\n");
  EXPECT_THAT(All(), ElementsAre("1/0@0:be", "1/0@10:(-8)end\n", "OK"));
}

TEST_F(LogStreamTest, FollowSendsWhatArrivesAndEndsWithTheJob) {
  Append(0, 0, "one\n");
  request_.set_follow(true);
  Open();
  EXPECT_EQ(Next(), "1/0@0:one\n");
  Append(0, 4, "two\n");
  EXPECT_EQ(Next(), "1/0@4:two\n");
  Append(0, 8, "no line end");
  SetState(JobState::kSucceeded);
  EXPECT_EQ(Next(), "1/0@8:no line end");
  EXPECT_EQ(Next(), "OK");
}

TEST_F(LogStreamTest, FollowOfAFinishedJobEndsAtOnce) {
  SetState(JobState::kFailed);
  Append(0, 0, "one\n");
  request_.set_follow(true);
  EXPECT_THAT(All(), ElementsAre("1/0@0:one\n", "OK"));
}

class FinishedLogStreamTest : public LogStreamTest, public ::testing::WithParamInterface<bool> {};

TEST_P(FinishedLogStreamTest, WaitsForAllThatTheRanksWrote) {
  auto attempt = std::make_shared<Attempt>();
  attempt->job_id = attempt->number = 1;
  attempt->ended = clock_.Now();
  attempt->ranks.resize(2);
  attempt->ranks[0].log_bytes = {8, 0};
  attempt->ranks[1].rank = 1;
  attempt->ranks[1].log_bytes = {0, 0};
  engine_.Publish([&](Snapshot& s) {
    auto job = MakeJob(1, "digits", JobState::kSucceeded);
    job->current = attempt;
    s.jobs.Put(1, job);
  });
  request_.set_follow(GetParam());
  Open();
  Append(0, 0, "one\n");
  EXPECT_EQ(Next(), "1/0@0:one\n");
  Append(0, 4, "two\n");
  EXPECT_EQ(Next(), "1/0@4:two\n");
  EXPECT_EQ(Next(), "OK");
}

// Each read finds the queue full the first time.
class BusyReader final : public MetricsReader {
 public:
  explicit BusyReader(MetricsReader& real) : real_(real) {}

  void ReadPoints(PointQuery query, PointsDone done) override {
    real_.ReadPoints(std::move(query), std::move(done));
  }
  void ReadLogs(LogQuery query, LogPosition position, LogsDone done) override {
    if (reads_++ % 2 == 0) return done(absl::ResourceExhaustedError("too many readers wait"));
    real_.ReadLogs(std::move(query), std::move(position), std::move(done));
  }

 private:
  MetricsReader& real_;
  std::atomic<int> reads_ = 0;
};

class BusyLogStreamTest : public LogStreamTest {
 protected:
  MetricsReader& reader() override {
    busy_ = std::make_unique<BusyReader>(*ingest_);
    return *busy_;
  }

  std::unique_ptr<BusyReader> busy_;
};

TEST_F(BusyLogStreamTest, AReadThatFindsTheQueueFullIsTriedAgain) {
  Append(0, 0, "one\n");
  request_.set_follow(true);
  Open();
  EXPECT_EQ(Next(), "1/0@0:one\n");
  Append(0, 4, "two\n");
  EXPECT_EQ(Next(), "1/0@4:two\n");
  SetState(JobState::kSucceeded);
  EXPECT_EQ(Next(), "OK");
}

TEST_F(BusyLogStreamTest, ATailKeepsItsPlace) {
  Append(0, 0, "1\n2\n3\n");
  request_.set_tail(1);
  EXPECT_THAT(All(), ElementsAre("1/0@4:3\n", "OK"));
}

INSTANTIATE_TEST_SUITE_P(FollowOrNot, FinishedLogStreamTest, ::testing::Bool());

TEST_F(LogStreamTest, ManyPagesKeepTheirOrder) {
  uint64_t offset = 0;
  std::string expected;
  for (int i = 0; i < 200; ++i) {
    const std::string line = absl::StrCat(i, std::string(4000, 'x'), "\n");
    Append(0, offset, line);
    offset += line.size();
    expected += line;
  }
  Open();
  std::string text;
  v1::StreamLogsResponse response;
  while (reader_->Read(&response)) {
    EXPECT_EQ(response.offset(), text.size());
    text += response.text();
  }
  EXPECT_OK(FromGrpc(reader_->Finish()));
  EXPECT_EQ(text, expected);
}

}  // namespace
}  // namespace muster::controller
