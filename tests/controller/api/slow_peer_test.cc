// Clients and agents that have the token, keep their streams open, and say or read nothing: each
// stream is ended after its time, what waits for it is bounded, and nobody else notices.
#include <gmock/gmock.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <fstream>
#include <future>

#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "controller/api/streams/control_stream.h"
#include "tests/controller/api/api_fixture.h"
#include "tests/support/subprocess.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::WaitUntil;
using ::testing::HasSubstr;

constexpr absl::Duration kAWhile = absl::Minutes(1);
// More than a connection takes up for a stream that nobody reads.
constexpr size_t kLargeBytes = 1 << 20;

class SlowPeerTest : public ApiFixture {
 protected:
  void SetUp() override {
    ApiFixture::SetUp();
    // A client whose window for a stream stays as it is, whatever comes on others.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    slow_channel_ =
        grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
    slow_ = v1::JobService::NewStub(slow_channel_);
  }
  // Adds to the log of job 1.
  void WriteLog(int lines, size_t line_bytes = 64 << 10) {
    MetricsBatch batch;
    for (int i = 0; i < lines; ++i) {
      const std::string line = std::string(line_bytes - 1, 'x') + "\n";
      batch.logs.push_back({{1, 1, 1, 0}, false, log_bytes_, line});
      log_bytes_ += line.size();
    }
    std::promise<absl::Status> stored;
    ingest_->Submit(std::move(batch), [&](const absl::Status& s) { stored.set_value(s); });
    ASSERT_OK(stored.get_future().get());
  }
  // Whether so many streams of the method have ended with that code, seen from the controller.
  bool HaveEnded(const std::string& method, const std::string& code, int count) {
    const std::string row = absl::StrCat("muster_rpc_requests_total{code=\"", code, "\",method=\"",
                                         method, "\"} ", count, "\n");
    return WaitUntil(kAWhile, [&] {
      const std::string text = prometheus::TextSerializer().Serialize(families_.Collect());
      return text.find(row) != std::string::npos;
    });
  }

  std::shared_ptr<grpc::Channel> slow_channel_;
  std::unique_ptr<v1::JobService::Stub> slow_;
  uint64_t log_bytes_ = 0;
};

// What a stream ends with, whatever lies before it.
template <typename Message, typename Stream>
absl::Status EndOf(Stream& stream) {
  Message message;
  while (stream.Read(&message)) {
  }
  return FromGrpc(stream.Finish());
}

v1::WorkerMessage HelloOf(const std::string& worker) {
  v1::WorkerMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello.set_protocol_version(kProtocolVersion);
  hello.set_worker_name(worker);
  hello.set_incarnation(std::string(16, 'i'));
  hello.set_pool("default");
  return message;
}

// ---- who does not read ----

class UnreadTest : public SlowPeerTest {
 protected:
  UnreadTest() { patience_.unread = absl::Seconds(1); }
  void SetUp() override {
    SlowPeerTest::SetUp();
    engine_.Publish([&](Snapshot& s) {
      auto job = MakeJob(1, std::string(kLargeBytes, 'n'));
      auto event = std::make_shared<JobEvent>();
      event->sequence = ++s.last_event;
      event->job_id = 1;
      event->message = std::string(kLargeBytes, 'm');
      s.events.Put(event->sequence, event);
      job->events.push_back(std::move(event));
      s.jobs.Put(1, std::move(job));
    });
  }
};

TEST_F(UnreadTest, WhoFollowsAndNeverReadsIsGivenUp) {
  WriteLog(16);
  Context logs;
  v1::StreamLogsRequest of_logs;
  of_logs.mutable_job()->set_id(1);
  of_logs.set_follow(true);
  const auto log_reader = slow_->StreamLogs(&logs, of_logs);
  Context events;
  v1::StreamEventsRequest of_events;
  of_events.set_follow(true);
  const auto event_reader = slow_->StreamEvents(&events, of_events);
  Context watch;
  v1::WatchJobRequest of_job;
  of_job.mutable_job()->set_id(1);
  const auto watcher = slow_->WatchJob(&watch, of_job);

  EXPECT_TRUE(HaveEnded("StreamLogs", "DEADLINE_EXCEEDED", 1));
  EXPECT_TRUE(HaveEnded("StreamEvents", "DEADLINE_EXCEEDED", 1));
  EXPECT_TRUE(HaveEnded("WatchJob", "DEADLINE_EXCEEDED", 1));
  EXPECT_FALSE(EndOf<v1::StreamLogsResponse>(*log_reader).ok()) << "taken for a whole log";
  EXPECT_FALSE(EndOf<v1::StreamEventsResponse>(*event_reader).ok());
  EXPECT_FALSE(EndOf<v1::WatchJobResponse>(*watcher).ok());
}

// The last message and the end of the stream wait together.
TEST_F(UnreadTest, WhoDoesNotReadTheLastMessageIsGivenUpToo) {
  engine_.Publish([](Snapshot& s) {
    s.jobs.Put(1, MakeJob(1, std::string(kLargeBytes, 'n'), JobState::kSucceeded));
  });
  Context watch;
  v1::WatchJobRequest of_job;
  of_job.mutable_job()->set_id(1);
  const auto watcher = slow_->WatchJob(&watch, of_job);
  EXPECT_TRUE(HaveEnded("WatchJob", "DEADLINE_EXCEEDED", 1));
  EXPECT_FALSE(EndOf<v1::WatchJobResponse>(*watcher).ok());
}

TEST_F(UnreadTest, WhoHasReadAllAndWaitsForMoreIsLeftAlone) {
  constexpr size_t kShortLine = 100;
  WriteLog(1, kShortLine);
  Context patient;
  v1::StreamLogsRequest request;
  request.mutable_job()->set_id(1);
  request.set_follow(true);
  const auto reader = stub_->StreamLogs(&patient, request);
  v1::StreamLogsResponse chunk;
  ASSERT_TRUE(reader->Read(&chunk));
  // As long as another takes to be given up.
  Context watch;
  v1::WatchJobRequest of_job;
  of_job.mutable_job()->set_id(1);
  const auto watcher = slow_->WatchJob(&watch, of_job);
  ASSERT_TRUE(HaveEnded("WatchJob", "DEADLINE_EXCEEDED", 1));
  WriteLog(1, kShortLine);
  ASSERT_TRUE(reader->Read(&chunk));
  EXPECT_EQ(chunk.offset() + chunk.text().size(), log_bytes_);
  patient.TryCancel();
  EXPECT_FALSE(reader->Finish().ok());
  EXPECT_FALSE(EndOf<v1::WatchJobResponse>(*watcher).ok());
}

// Its stream was ended for what waits there, but never closed while it did not read.
TEST_F(UnreadTest, AnAgentThatNeverReadsIsGivenUp) {
  const auto stub = v1::WorkerService::NewStub(slow_channel_);
  for (const size_t messages : {size_t{4}, 2 * (ControlStream::kMaxQueuedBytes >> 20)}) {
    Context context;
    const auto stream = stub->Control(&context);
    ASSERT_TRUE(stream->Write(HelloOf("w1")));
    const std::shared_ptr<WorkerLink> link = engine_.WaitForLink();
    StartAssignment large;
    large.checkpoint_root = std::string(kLargeBytes, 'x');
    for (size_t i = 0; i < messages; ++i) link->Send({1, large});
    EXPECT_TRUE(
        HaveEnded("Control", messages == 4 ? "DEADLINE_EXCEEDED" : "RESOURCE_EXHAUSTED", 1));
    EXPECT_FALSE(EndOf<v1::ControllerMessage>(*stream).ok());
    engine_.WaitForDisconnect();
  }
}

// ---- who reads late, and many who never do ----

uint64_t ResidentBytesOfThisProcess() {
  std::ifstream file("/proc/self/statm");
  uint64_t total_pages = 0;
  uint64_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

TEST_F(SlowPeerTest, ManyWhoNeverReadAreNotQueuedForAndHoldUpNobody) {
  constexpr int kFollowers = 64;
  constexpr int kLines = 256;
  engine_.Publish([](Snapshot& s) { s.jobs.Put(1, MakeJob(1, "digits")); });
  for (int i = 0; i < kLines; i += 32) WriteLog(32);
  const uint64_t before = ResidentBytesOfThisProcess();
  struct Follower {
    Context context;
    std::unique_ptr<grpc::ClientReader<v1::StreamLogsResponse>> reader;
  };
  v1::StreamLogsRequest request;
  request.mutable_job()->set_id(1);
  request.set_follow(true);
  std::vector<std::unique_ptr<Follower>> followers;
  for (int i = 0; i < kFollowers; ++i) {
    followers.push_back(std::make_unique<Follower>());
    followers.back()->reader = slow_->StreamLogs(&followers.back()->context, request);
  }
  // One that reads gets all of it, in which time the others would have been sent as much.
  Context context;
  const auto reader = stub_->StreamLogs(&context, request);
  v1::StreamLogsResponse chunk;
  uint64_t got = 0;
  while (got < log_bytes_ && reader->Read(&chunk)) got += chunk.text().size();
  EXPECT_EQ(got, log_bytes_);
  v1::GetVersionResponse version;
  EXPECT_OK(Call(&v1::JobService::Stub::GetVersion, v1::GetVersionRequest(), version));
  // Each has a page at most; the whole log for each would be twice the bound.
  EXPECT_LT(ResidentBytesOfThisProcess(), before + kFollowers * log_bytes_ / 2);
  // Who begins to read after all misses nothing.
  got = 0;
  while (got < log_bytes_ && followers[0]->reader->Read(&chunk)) got += chunk.text().size();
  EXPECT_EQ(got, log_bytes_);
  context.TryCancel();
  EXPECT_FALSE(reader->Finish().ok());
  for (const auto& follower : followers) follower->context.TryCancel();
  for (const auto& follower : followers) EXPECT_FALSE(follower->reader->Finish().ok());
}

// ---- who says nothing ----

class SilentTest : public SlowPeerTest {
 protected:
  SilentTest() {
    patience_.hello = patience_.idle = absl::Seconds(1);
    patience_.silent = absl::Seconds(3);
    engine_.engine_options.lost_after = absl::Seconds(1);
  }
};

TEST_F(SilentTest, AnAgentThatDoesNotSayHelloIsEnded) {
  Context context;
  const auto stream = worker_stub_->Control(&context);
  EXPECT_THAT(FromGrpc(stream->Finish()),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("nothing was said for 1s")));
}

TEST_F(SilentTest, AnAgentThatFallsSilentIsEndedAndOneThatBeatsIsNot) {
  Context alive;
  const auto beating = worker_stub_->Control(&alive);
  ASSERT_TRUE(beating->Write(HelloOf("w1")));
  v1::ControllerMessage answer;
  ASSERT_TRUE(beating->Read(&answer));
  Context context;
  const auto silent = worker_stub_->Control(&context);
  ASSERT_TRUE(silent->Write(HelloOf("w2")));
  ASSERT_TRUE(silent->Read(&answer));
  std::future<absl::Status> end =
      std::async(std::launch::async, [&] { return FromGrpc(silent->Finish()); });
  v1::WorkerMessage beat;
  while (end.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    beat.mutable_heartbeat()->set_seq(beat.heartbeat().seq() + 1);
    ASSERT_TRUE(beating->Write(beat));
    ASSERT_TRUE(beating->Read(&answer));
  }
  EXPECT_THAT(end.get(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  alive.TryCancel();
  EXPECT_THAT(FromGrpc(beating->Finish()), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(SilentTest, AnAgentWithoutRecordsOpensItsStreamAgain) {
  Context context;
  const auto stream = worker_stub_->Bulk(&context);
  EXPECT_THAT(FromGrpc(stream->Finish()),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("nothing was said for 1s")));
}

// Their places are bounded: they kept all others out for as long as they were connected.
TEST_F(SilentTest, AClientThatSubmitsNothingIsEnded) {
  Context context;
  const auto stream = stub_->SubmitJobs(&context);
  EXPECT_THAT(FromGrpc(stream->Finish()),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("nothing was said for 3s")));
}

}  // namespace
}  // namespace muster::controller
